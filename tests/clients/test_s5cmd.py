"""s5cmd, which sends many requests at once."""

from __future__ import annotations

import random

import pytest

from conftest import Program, files, find, write
from wire import Server


@pytest.fixture
def s5cmd(environment: dict[str, str], server: Server) -> Program:
    return Program(find("go/bin/s5cmd"), environment, ("--endpoint-url", server.endpoint, "--retry-count", "0"))


def test_a_bucket_is_made_listed_and_removed(s5cmd, bucket_name, buckets):
    s5cmd("mb", f"s3://{bucket_name}")
    assert bucket_name in buckets()
    assert any(line.endswith(f"s3://{bucket_name}") for line in s5cmd("ls").lines)
    s5cmd("rb", f"s3://{bucket_name}")
    assert bucket_name not in buckets()


def test_a_file_in_parts_comes_back_as_it_was(s5cmd, bucket, tmp_path, stored):
    content = random.Random(1).randbytes(20_000_003)
    s5cmd("cp", "--part-size", 5, "--concurrency", 8, write(tmp_path / "up", content), f"s3://{bucket}/a + b%")
    assert stored(bucket) == {"a + b%": content}
    s5cmd("cp", "--part-size", 5, "--concurrency", 8, f"s3://{bucket}/a + b%", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == content


def test_a_folder_goes_up_and_a_second_sync_transfers_nothing(s5cmd, bucket, tree, tmp_path, stored):
    assert len(s5cmd("sync", f"{tree}/", f"s3://{bucket}/up/").lines) == len(files(tree))
    assert stored(bucket) == {f"up/{name}": content for name, content in files(tree).items()}
    assert s5cmd("sync", f"{tree}/", f"s3://{bucket}/up/").lines == []
    s5cmd("cp", f"s3://{bucket}/up/*", f"{tmp_path}/down/")
    assert files(tmp_path / "down") == files(tree)


def test_a_thousand_small_objects_are_put_at_once_and_removed_at_once(s5cmd, bucket, tmp_path, stored):
    names = [f"{number:04} %+ ☃" for number in range(1_000)]
    for name in names:
        write(tmp_path / "many" / name, name.encode())
    s5cmd("cp", f"{tmp_path}/many/", f"s3://{bucket}/")
    assert stored(bucket) == {name: name.encode() for name in names}
    s5cmd("rm", f"s3://{bucket}/*")
    assert stored(bucket) == {}


def test_an_object_is_written_to_standard_output(s5cmd, s3, bucket):
    s3.put_object(Bucket=bucket, Key="100% ☃", Body=b"content")
    assert s5cmd.bytes("cat", f"s3://{bucket}/100% ☃") == b"content"


def test_standard_input_becomes_an_object(s5cmd, bucket, stored):
    content = random.Random(2).randbytes(6_000_000)
    s5cmd("pipe", f"s3://{bucket}/stream", given=content)
    assert stored(bucket) == {"stream": content}
