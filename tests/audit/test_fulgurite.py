"""Places in this project's own S3 server: an audit of one archive may read copies that another holds."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from conftest import PATIENCE_S, REPOSITORY, Place, absent
from test_places import ODD_NAMES

# The program under test, as in ../s3/serving.py.
SERVER = Path(os.environ.get("FULGURITE_BIN") or REPOSITORY / "target/debug/fulgurite")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if not SERVER.is_file():
        absent(str(SERVER))
    home = tmp_path_factory.mktemp("fulgurite")
    with (home / "log").open("wb") as log:
        command = [SERVER, "-A", home / "archive", "--json", "serve", "--listen", "127.0.0.1:0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    assert server.stdout is not None
    said = json.loads(server.stdout.readline() or json.dumps({"log": (home / "log").read_text()}))
    keys = {"aws_access_key_id": said["access_key"], "aws_secret_access_key": said["secret_key"]}
    client = boto3.client("s3", endpoint_url=said["endpoint"], region_name=said["region"], config=Config(s3={"addressing_style": "path"}), **keys)
    client.create_bucket(Bucket="bucket")
    options = [f"endpoint={said['endpoint']}", f"region={said['region']}", f"access_key_id={said['access_key']}", "secret_access_key=env:S3_SECRET"]
    yield Place("s3://bucket/prefix", options, home, {"S3_SECRET": said["secret_key"]}, client)
    server.terminate()
    server.wait(timeout=PATIENCE_S)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_kept(place: Place, name: str) -> None:
    content = name.encode() * 3
    place.do("write", name, content=content)
    assert place.do("read", name) == content
    assert place.listed()[name] == len(content)
    place.do("remove", name)
    assert name not in place.listed()
    assert place.cause("read", name) == "missing"
    assert place.cause("length", name) == "missing"


@pytest.mark.parametrize("length", [0, 1, (8 << 20) + 1, 20_000_003])
def test_every_length_survives(place: Place, length: int) -> None:
    content = random.Random(length).randbytes(length)
    place.do("write", "length", content=content)
    assert place.do("length", "length") == f"{length}\n".encode()
    assert place.do("read", "length") == content


def test_nothing_is_missing_without_its_bucket(place: Place) -> None:
    gone = Place("s3://no-such-bucket/prefix", place.options, place.folder, place.environment)
    for command in ("length", "read", "list"):
        assert gone.cause(command, *([] if command == "list" else ["there"])) == "fault", command


def test_wrong_credentials_are_denied(place: Place) -> None:
    wrong = Place(place.url, place.options, place.folder, {"S3_SECRET": "wrong"})
    for command in ("length", "read", "list"):
        assert wrong.cause(command, *([] if command == "list" else ["there"])) == "denied", command


def test_a_signed_url_can_be_fetched_by_anyone(place: Place) -> None:
    place.do("write", "signed one", content=b"content")
    url = place.do("url", "signed one").decode().strip()
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        assert answer.read() == b"content"


def test_checksums_of_uploads_are_stated(place: Place) -> None:
    client = place.client
    assert client is not None
    content = b"content with a checksum"
    client.put_object(Bucket="bucket", Key="prefix/sum", Body=content, ChecksumAlgorithm="SHA256")
    length, *digests = place.do("stated", "sum").decode().splitlines()
    assert int(length) == len(content)
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" in digests
    # In parts: neither the ETag nor the checksum is one of the content.
    upload = client.create_multipart_upload(Bucket="bucket", Key="prefix/parts", ChecksumAlgorithm="SHA256")
    where = {"Bucket": "bucket", "Key": "prefix/parts", "UploadId": upload["UploadId"]}
    part = client.upload_part(**where, PartNumber=1, Body=content, ChecksumAlgorithm="SHA256")
    sums = {name: part[name] for name in ("ETag", "ChecksumSHA256")}
    client.complete_multipart_upload(**where, MultipartUpload={"Parts": [{"PartNumber": 1} | sums]})
    assert place.do("stated", "parts") == f"{len(content)}\n".encode()
