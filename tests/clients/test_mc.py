"""The client of MinIO."""

from __future__ import annotations

import json
import random
import re
import urllib.request
from pathlib import Path

import pytest

from conftest import Program, files, find, write
from wire import Server


@pytest.fixture
def mc(environment: dict[str, str], server: Server, host: str, tmp_path: Path) -> Program:
    address = f"http://{server.main.access_key}:{server.main.secret_key}@{host}"
    return Program(find("go/bin/mc"), environment | {"MC_HOST_glass": address}, ("--config-dir", str(tmp_path / "mc"), "--json"))


def told(mc: Program, *arguments: object) -> list[dict]:
    return [json.loads(line) for line in mc(*arguments).lines]


def test_a_bucket_is_made_listed_and_removed(mc, bucket_name, buckets):
    mc("mb", f"glass/{bucket_name}")
    assert bucket_name in buckets()
    assert f"{bucket_name}/" in {entry["key"] for entry in told(mc, "ls", "glass")}
    mc("rb", f"glass/{bucket_name}")
    assert bucket_name not in buckets()


def test_a_folder_goes_up_and_a_second_mirror_transfers_nothing(mc, bucket, tree, tmp_path, stored):
    def mirrored(*which: object) -> int:
        return sum("source" in entry for entry in told(mc, "mirror", *which))

    assert mirrored(tree, f"glass/{bucket}/up") == len(files(tree))
    assert stored(bucket) == {f"up/{name}": content for name, content in files(tree).items()}
    assert mirrored(tree, f"glass/{bucket}/up") == 0
    assert told(mc, "diff", tree, f"glass/{bucket}/up") == []
    assert mirrored(f"glass/{bucket}/up", tmp_path / "down") == len(files(tree))
    assert files(tmp_path / "down") == files(tree)


def test_a_file_in_parts_comes_back_as_it_was(mc, bucket, tmp_path, stored):
    # It sends parts of at least 16 MiB.
    content = random.Random(1).randbytes(40_000_003)
    mc("cp", write(tmp_path / "up", content), f"glass/{bucket}/a + b%")
    assert stored(bucket) == {"a + b%": content}
    mc("cp", f"glass/{bucket}/a + b%", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == content


def test_standard_input_becomes_an_object_and_an_object_standard_output(mc, bucket, stored):
    content = random.Random(2).randbytes(6_000_000)
    mc("pipe", f"glass/{bucket}/stream", given=content)
    assert stored(bucket) == {"stream": content}
    assert mc.bytes("cat", f"glass/{bucket}/stream") == content


def test_an_object_is_described_with_its_tags(mc, s3, bucket):
    s3.put_object(Bucket=bucket, Key="100% +", Body=b"content", Metadata={"colour": "blue"})
    mc("tag", "set", f"glass/{bucket}/100% +", "rank=one&shelf=a b")
    [described] = told(mc, "stat", f"glass/{bucket}/100% +")
    # The MD5 of `content`.
    assert (described["size"], described["etag"]) == (7, "9a0364b9e99bb480dd25e1f0284c8555")
    assert described["metadata"]["X-Amz-Meta-Colour"] == "blue"
    tags = {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key="100% +")["TagSet"]}
    assert tags == {"rank": "one", "shelf": "a b"}


def test_versions_are_listed_and_brought_back(mc, bucket, tmp_path, stored):
    mc("version", "enable", f"glass/{bucket}")
    for content in (b"first", b"second"):
        mc("cp", write(tmp_path / "file", content), f"glass/{bucket}/a b")
    mc("rm", f"glass/{bucket}/a b")
    assert stored(bucket) == {}
    assert len(told(mc, "ls", "--versions", f"glass/{bucket}")) == 3
    mc("undo", "--force", f"glass/{bucket}/a b")
    assert stored(bucket) == {"a b": b"second"}


def test_a_shared_address_is_fetched_by_whoever_has_it(mc, s3, bucket):
    s3.put_object(Bucket=bucket, Key="grüße/100% a+b", Body=b"content")
    [shared] = told(mc, "share", "download", "--expire", "1m", f"glass/{bucket}/grüße/100% a+b")
    assert re.search("X-Amz-Signature=", shared["share"])
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(shared["share"], timeout=30) as answer:
        assert answer.read() == b"content"


def test_all_under_a_prefix_is_removed_and_nothing_else(mc, s3, bucket, stored, buckets):
    for key in ["old/1 %", "old/2+", "old/grüße", "older"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"content")
    mc("rm", "--recursive", "--force", f"glass/{bucket}/old/")
    assert stored(bucket).keys() == {"older"}
    mc("rb", "--force", f"glass/{bucket}")
    assert bucket not in buckets()
