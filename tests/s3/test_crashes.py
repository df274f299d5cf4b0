"""A server that is killed in the middle of what it does loses nothing that it has acknowledged, and shows nothing half done.

FULGURITE_CRASHES says how often it is killed (5; a long run takes 200).
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from conftest import START_S, announced, connect, first_line
from wire import Account, Server

ROUNDS = int(os.environ.get("FULGURITE_CRASHES", "5"))
WRITERS = 64
PART = 5 << 20


@pytest.fixture
def program(server: Server) -> Path:
    if os.environ.get("S3_ENDPOINT"):
        pytest.skip("another server is not killed")
    return Path(os.environ.get("FULGURITE_BIN") or Path(__file__).resolve().parents[2] / "target/debug/fulgurite")


class Killed:
    """A server on a folder, which can be killed and started again."""

    def __init__(self, program: Path, folder: Path):
        self.command = [str(program), "-A", str(folder / "archive"), "--json", "serve", "--listen", "127.0.0.1:0"]
        self.log = folder / "log"
        self.account = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log)
        said = announced(first_line(self.process), self.log)
        if "access_key" in said:
            self.account = Account(said["access_key"], said["secret_key"])
        self.client = connect(Server(said["endpoint"], said["region"], self.account, None), self.account)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(START_S) == 0, self.log.read_text()


def content(key: str) -> bytes:
    """What is put under a key, so that whoever reads it knows it."""
    chance = random.Random(key)
    return chance.randbytes(chance.choice([0, 1, 4_000, 15_360, 70_000, 1_300_000]))


def test_what_was_acknowledged_is_there_after_a_kill(program, tmp_path):
    server = Killed(program, tmp_path)
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
    server.stop()


def test_an_upload_that_is_completed_when_the_server_dies_is_whole_or_not_there(program, tmp_path):
    server = Killed(program, tmp_path)
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
    server.stop()
