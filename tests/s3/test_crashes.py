"""A server that is killed in the middle of what it does loses nothing that it has acknowledged, and shows nothing half done.

FULGURITE_CRASHES says how often it is killed (5; a long run takes 200).
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from serving import Serving, connect

ROUNDS = int(os.environ.get("FULGURITE_CRASHES", "5"))
WRITERS = 64
PART = 5 << 20


class Killed(Serving):
    """A server that is killed and started again, with a client for it as it is now."""

    def start(self) -> None:
        super().start()
        self.client = connect(self.server, self.account)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Killed]:
    if os.environ.get("S3_ENDPOINT"):
        pytest.skip("another server is not killed")
    server = Killed(tmp_path)
    try:
        server.start()
        yield server
        server.stop()
    finally:
        server.kill()


def content(key: str) -> bytes:
    """What is put under a key, so that whoever reads it knows it."""
    chance = random.Random(key)
    return chance.randbytes(chance.choice([0, 1, 4_000, 15_360, 70_000, 1_300_000]))


def test_what_was_acknowledged_is_there_after_a_kill(server):
    server.client.create_bucket(Bucket="kept")
    acknowledged: set[str] = set()
    begun: set[str] = set()
    removed: set[str] = set()
    lock = threading.Lock()
    for round in range(ROUNDS):
        client, stop = server.client, threading.Event()

        def write(writer: int):
            number = 0
            while not stop.is_set():
                key = f"{round}/{writer}/{number}"
                number += 1
                with lock:
                    begun.add(key)
                try:
                    client.put_object(Bucket="kept", Key=key, Body=content(key))
                except (ClientError, BotoCoreError, HTTPClientError):
                    return
                with lock:
                    acknowledged.add(key)
                if number % 5 == 0:
                    with lock:
                        removed.add(key)
                        acknowledged.discard(key)
                    try:
                        client.delete_object(Bucket="kept", Key=key)
                    except (ClientError, BotoCoreError, HTTPClientError):
                        # Whether it was removed isn't known; it was begun.
                        removed.discard(key)
                        return

        writers = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
        for writer in writers:
            writer.start()
        time.sleep(random.Random(round).uniform(0.2, 1.2))
        server.kill()
        stop.set()
        for writer in writers:
            writer.join()
        server.start()
        pages = server.client.get_paginator("list_objects_v2").paginate(Bucket="kept")
        listed = {entry["Key"]: entry for page in pages for entry in page.get("Contents", [])}
        assert acknowledged <= listed.keys(), f"round {round}: lost {sorted(acknowledged - listed.keys())[:5]}"
        assert listed.keys() <= begun, f"round {round}: nobody put {sorted(listed.keys() - begun)[:5]}"
        assert not removed & listed.keys(), f"round {round}: came back {sorted(removed & listed.keys())[:5]}"
        for key in [key for key in listed if key.startswith(f"{round}/")]:
            wanted = content(key)
            assert listed[key]["Size"] == len(wanted), key
            assert server.client.get_object(Bucket="kept", Key=key)["Body"].read() == wanted, key
    assert acknowledged, "nothing was ever put"


def test_an_upload_that_is_completed_when_the_server_dies_is_whole_or_not_there(server):
    server.client.create_bucket(Bucket="kept")
    for round in range(min(ROUNDS, 20)):
        key, parts = f"large/{round}", [random.Random(f"{round}/{number}").randbytes(PART) for number in range(3)]
        upload = server.client.create_multipart_upload(Bucket="kept", Key=key)["UploadId"]
        named = []
        for number, part in enumerate(parts, 1):
            answer = server.client.upload_part(Bucket="kept", Key=key, UploadId=upload, PartNumber=number, Body=part)
            named.append({"PartNumber": number, "ETag": answer["ETag"]})
        client, outcome = server.client, []

        def complete():
            try:
                client.complete_multipart_upload(Bucket="kept", Key=key, UploadId=upload, MultipartUpload={"Parts": named})
                outcome.append(True)
            except (ClientError, BotoCoreError, HTTPClientError):
                pass

        completing = threading.Thread(target=complete)
        completing.start()
        time.sleep(random.Random(round).uniform(0.0, 0.3))
        server.kill()
        completing.join()
        server.start()
        whole = hashlib.sha256(b"".join(parts)).hexdigest()

        def found() -> str | None:
            try:
                return hashlib.sha256(server.client.get_object(Bucket="kept", Key=key)["Body"].read()).hexdigest()
            except server.client.exceptions.NoSuchKey:
                return None

        before = found()
        assert before in (None, whole), f"round {round}: half an object"
        assert before == whole or not outcome, f"round {round}: an upload that was complete is gone"
        # Whoever asks again gets it, whether it was complete or not.
        server.client.complete_multipart_upload(Bucket="kept", Key=key, UploadId=upload, MultipartUpload={"Parts": named})
        assert found() == whole
