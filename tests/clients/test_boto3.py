"""boto3 above its client: transfers in parts by several threads, resources, and an upload that outlives its server.

    FULGURITE_LONG=1    the upload that outlives its server has 5 GB instead of 64 MB, and `pytest -s` shows what each phase took

A long run takes about four times the upload on the disk of the temporary folder while it lasts. Content is made and hashed part by
part, so that the tests themselves stay small.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5, sha256
from pathlib import Path

import boto3
import pytest
from boto3.s3.transfer import TransferConfig

from conftest import files
from serving import Serving, connect
from wire import Server

LONG = os.environ.get("FULGURITE_LONG", "") not in ("", "0")
MB = 1_000_000
MIB = 1 << 20
THREADS = 4
COMPLETION_S = 600 if LONG else 60
RESUMED_BYTES, RESUMED_PART = (5_000 * MB, 64 * MIB) if LONG else (64 * MB, 8 * MIB)
TRANSFER = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=THREADS)


@pytest.fixture
def resource(server: Server):
    account = {"aws_access_key_id": server.main.access_key, "aws_secret_access_key": server.main.secret_key}
    return boto3.resource("s3", endpoint_url=server.endpoint, region_name=server.region, **account)


def test_a_file_is_transferred_in_parts_by_threads_and_ranges(resource, bucket, tmp_path):
    content = random.Random(100).randbytes(100 * MB)
    (tmp_path / "up").write_bytes(content)
    resource.Bucket(bucket).upload_file(str(tmp_path / "up"), "100% large", Config=TRANSFER)
    put = resource.Object(bucket, "100% large")
    assert put.content_length == len(content)
    assert put.e_tag.endswith(f'-{-(-len(content) // TRANSFER.multipart_chunksize)}"')
    resource.Bucket(bucket).download_file("100% large", str(tmp_path / "down"), Config=TRANSFER)
    assert (tmp_path / "down").read_bytes() == content


def test_files_are_transferred_and_found_and_removed_as_resources(resource, bucket, tree, tmp_path):
    place = resource.Bucket(bucket)
    for name in files(tree):
        place.upload_file(str(tree / name), name, ExtraArgs={"Metadata": {"origin": "tree"}})
    assert {entry.key: entry.size for entry in place.objects.all()} == {name: len(content) for name, content in files(tree).items()}
    for name in files(tree):
        assert place.Object(name).metadata == {"origin": "tree"}
        (tmp_path / "down" / name).parent.mkdir(parents=True, exist_ok=True)
        place.download_file(name, str(tmp_path / "down" / name))
    assert files(tmp_path / "down") == files(tree)
    place.objects.all().delete()
    assert list(place.objects.all()) == []
    place.delete()
    assert place.creation_date is None


def test_a_transfer_copies_an_object_in_parts(resource, bucket):
    content = random.Random(101).randbytes(20 * MB)
    resource.Object(bucket, "from +").put(Body=content)
    resource.Object(bucket, "to %").copy({"Bucket": bucket, "Key": "from +"}, Config=TRANSFER)
    assert resource.Object(bucket, "to %").get()["Body"].read() == content


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """A server that the test may kill."""
    serving = Serving(tmp_path)
    try:
        serving.start()
        yield serving
        serving.stop()
    finally:
        serving.kill()
        shutil.rmtree(serving.archive, ignore_errors=True)


def part(number: int) -> bytes:
    """The content of a part, which counts from 1."""
    begin = (number - 1) * RESUMED_PART
    return random.Random(number).randbytes(min(RESUMED_PART, RESUMED_BYTES - begin))


class Phases:
    """Says how long each part of the test has taken, and the most memory of the server up to there."""

    def __init__(self, serving: Serving):
        self.serving, self.begun = serving, time.monotonic()

    def ended(self, what: str, moved_bytes: int = 0) -> None:
        now = time.monotonic()
        seconds, self.begun = now - self.begun, now
        rate = f", {moved_bytes / MB / seconds:.0f} MB/s" if moved_bytes else ""
        print(f"\n{what}: {seconds:.1f} s{rate}, {peak_mib(self.serving)} MiB", end="")


def peak_mib(serving: Serving) -> int:
    """The most memory that the server has had since its start."""
    status = Path(f"/proc/{serving.process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) >> 10


def test_an_upload_in_parts_is_resumed_after_the_server_was_killed(serving):
    numbers = range(1, -(-RESUMED_BYTES // RESUMED_PART) + 1)
    half, which = len(numbers) // 2, {"Bucket": "resumed", "Key": "large + 100%"}
    phases = Phases(serving)

    def client():
        # The answer to a completion comes when all parts have been read.
        return connect(serving.server, serving.account, read_timeout=COMPLETION_S)

    def put(s3, upload: str, numbers) -> None:
        def one(number: int) -> None:
            content = part(number)
            answer = s3.upload_part(**which, UploadId=upload, PartNumber=number, Body=content)
            assert answer["ETag"] == f'"{md5(content).hexdigest()}"'

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(one, numbers))

    s3 = client()
    s3.create_bucket(Bucket="resumed")
    upload = s3.create_multipart_upload(**which)["UploadId"]
    phases.ended("begun")
    put(s3, upload, numbers[:half])
    phases.ended("first half put", half * RESUMED_PART)
    serving.kill()
    serving.start()
    phases.ended("killed and started again")

    s3 = client()
    [begun] = s3.list_multipart_uploads(Bucket="resumed")["Uploads"]
    assert (begun["Key"], begun["UploadId"]) == (which["Key"], upload)
    listed = s3.list_parts(**which, UploadId=upload)["Parts"]
    assert [(entry["PartNumber"], entry["Size"]) for entry in listed] == [(number, RESUMED_PART) for number in numbers[:half]]
    put(s3, upload, numbers[half:])
    phases.ended("second half put", RESUMED_BYTES - half * RESUMED_PART)
    pages = s3.get_paginator("list_parts").paginate(**which, UploadId=upload)
    parts = [{"PartNumber": entry["PartNumber"], "ETag": entry["ETag"]} for page in pages for entry in page["Parts"]]
    assert [entry["PartNumber"] for entry in parts] == list(numbers)
    s3.complete_multipart_upload(**which, UploadId=upload, MultipartUpload={"Parts": parts})
    phases.ended("completed", RESUMED_BYTES)

    read(s3, which, numbers)
    phases.ended("read by ranges and compared", RESUMED_BYTES)
    got = s3.get_object(**which)["Body"]
    found = sha256()
    for block in iter(lambda: got.read(MIB), b""):
        found.update(block)
    put_there = sha256()
    for number in numbers:
        put_there.update(part(number))
    assert found.digest() == put_there.digest()
    phases.ended("read as a whole and hashed", RESUMED_BYTES)


def read(s3, which: dict, numbers) -> None:
    def one(number: int) -> None:
        begin = (number - 1) * RESUMED_PART
        end = min(begin + RESUMED_PART, RESUMED_BYTES) - 1
        assert s3.get_object(**which, Range=f"bytes={begin}-{end}")["Body"].read() == part(number), f"part {number} differs"

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(one, numbers))
