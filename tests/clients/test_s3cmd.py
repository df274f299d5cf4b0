"""s3cmd, which signs and parses all by itself."""

from __future__ import annotations

import random
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from conftest import ODD_NAMES, Program, files, find, until, write
from wire import Server

SETTINGS = """\
[default]
access_key = {access_key}
secret_key = {secret_key}
bucket_location = {region}
host_base = {host}
host_bucket = {host}
use_https = False
signature_v2 = False
multipart_chunk_size_mb = 5
max_retries = 1
progress_meter = False
"""


@pytest.fixture
def s3cmd(environment: dict[str, str], server: Server, host: str, tmp_path: Path) -> Program:
    account = {"access_key": server.main.access_key, "secret_key": server.main.secret_key}
    settings = write(tmp_path / "s3cfg", SETTINGS.format(host=host, region=server.region, **account).encode())
    return Program(find("venv/bin/s3cmd"), environment, ("--config", str(settings), "--no-progress"))


def test_a_bucket_is_made_listed_and_removed(s3cmd, bucket_name, buckets):
    s3cmd("mb", f"s3://{bucket_name}")
    assert bucket_name in buckets()
    assert any(line.endswith(f"s3://{bucket_name}") for line in s3cmd("ls").lines)
    s3cmd("rb", f"s3://{bucket_name}")
    assert bucket_name not in buckets()


@pytest.mark.parametrize("size", [0, 1, 12_000_001])
def test_a_file_comes_back_as_it_was(s3cmd, bucket, tmp_path, stored, size):
    content = random.Random(size).randbytes(size)
    s3cmd("put", write(tmp_path / "up", content), f"s3://{bucket}/folder/a + b.bin")
    assert stored(bucket) == {"folder/a + b.bin": content}
    s3cmd("get", f"s3://{bucket}/folder/a + b.bin", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == content


def test_names_and_sizes_are_listed(s3cmd, s3, bucket, tree):
    for name, content in files(tree).items():
        s3.put_object(Bucket=bucket, Key=name, Body=content)
    listed = [line.split(maxsplit=3) for line in s3cmd("ls", "--recursive", f"s3://{bucket}").out.split("\n") if line]
    assert sorted((size, address) for _, _, size, address in listed) == sorted(
        (str(len(content)), f"s3://{bucket}/{name}") for name, content in files(tree).items()
    )
    assert sum("DIR" in line for line in s3cmd("ls", f"s3://{bucket}").lines) == 2


def test_a_second_sync_transfers_nothing_in_either_direction(s3cmd, bucket, tree, tmp_path, stored):
    def sync(*which: object) -> int:
        return len(re.findall(r"^(?:upload|download): ", s3cmd("sync", *which).out, re.MULTILINE))

    (tmp_path / "down").mkdir()
    up, down = (f"{tree}/", f"s3://{bucket}/up/"), (f"s3://{bucket}/up/", f"{tmp_path}/down/")
    assert sync(*up) == len(ODD_NAMES)
    assert stored(bucket) == {f"up/{name}": content for name, content in files(tree).items()}
    assert sync(*up) == 0
    assert sync(*down) == len(ODD_NAMES)
    assert files(tmp_path / "down") == files(tree)
    assert sync(*down) == 0


def test_an_object_is_described(s3cmd, bucket, tmp_path):
    s3cmd("put", "--add-header", "x-amz-meta-colour: blue", write(tmp_path / "up", b"content"), f"s3://{bucket}/100% +.txt")
    described = s3cmd("info", f"s3://{bucket}/100% +.txt").out
    assert re.search(r"File size:\s+7$", described, re.MULTILINE)
    # The MD5 of `content`.
    assert "9a0364b9e99bb480dd25e1f0284c8555" in described
    assert re.search(r"x-amz-meta-colour:\s+blue", described)
    assert s3cmd("info", f"s3://{bucket}").out.startswith(f"s3://{bucket}/ (bucket)")


def test_an_archived_object_is_refused_then_restored_then_read(s3cmd, s3, bucket, tmp_path):
    s3cmd("put", "--storage-class", "GLACIER", write(tmp_path / "up", b"archived"), f"s3://{bucket}/a b%")
    assert s3.head_object(Bucket=bucket, Key="a b%")["StorageClass"] == "GLACIER"
    assert "InvalidObjectState" in s3cmd.fails("get", f"s3://{bucket}/a b%", tmp_path / "refused")
    s3cmd("restore", "--restore-days", 1, "--restore-priority", "expedited", f"s3://{bucket}/a b%")
    until(lambda: 'ongoing-request="false"' in s3.head_object(Bucket=bucket, Key="a b%")["Restore"], "restored")
    s3cmd("get", f"s3://{bucket}/a b%", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == b"archived"


def test_what_is_deleted_is_gone_and_nothing_else(s3cmd, s3, bucket, stored):
    for key in ["one +%", "old/1 %", "old/2+", "old/grüße", "new"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"content")
    s3cmd("del", f"s3://{bucket}/one +%")
    s3cmd("del", "--recursive", "--force", f"s3://{bucket}/old/")
    assert stored(bucket).keys() == {"new"}
    assert "BucketNotEmpty" in s3cmd.fails("rb", f"s3://{bucket}")


def test_a_signed_address_of_the_old_kind_is_refused_as_such(s3cmd, s3, bucket):
    """`signurl` knows Signature Version 2 alone, which AWS takes in no bucket made since 2020 either."""
    s3.put_object(Bucket=bucket, Key="object", Body=b"content")
    address = s3cmd("signurl", f"s3://{bucket}/object", "+60").out.strip()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=30)
    assert refused.value.code == 400
    assert b"AWS4-HMAC-SHA256" in refused.value.read()
