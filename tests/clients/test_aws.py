"""The AWS command line: the high commands `aws s3`, and `aws s3api` where archived objects and versions need it."""

from __future__ import annotations

import json
import random
import socket
import urllib.request
from hashlib import sha256

import pytest

from conftest import ODD_NAMES, Program, files, find, until, write
from wire import Wire

# Above the 8 MiB from which on the client sends parts, and no multiple of a part.
IN_PARTS = 20_000_003


@pytest.fixture
def aws(environment: dict[str, str]) -> Program:
    return Program(find("venv/bin/aws"), environment)


def test_a_bucket_is_made_listed_and_removed(aws, bucket_name, buckets):
    aws("s3", "mb", f"s3://{bucket_name}")
    assert bucket_name in buckets()
    assert any(line.endswith(f" {bucket_name}") for line in aws("s3", "ls").lines)
    aws("s3", "rb", f"s3://{bucket_name}")
    assert bucket_name not in buckets()


def test_a_bucket_that_is_not_empty_is_removed_by_force_only(aws, s3, bucket, buckets):
    s3.put_object(Bucket=bucket, Key="object", Body=b"content")
    assert "BucketNotEmpty" in aws.fails("s3", "rb", f"s3://{bucket}")
    aws("s3", "rb", "--force", f"s3://{bucket}")
    assert bucket not in buckets()


@pytest.mark.parametrize("size", [0, 1, 100_000, IN_PARTS])
def test_a_file_comes_back_as_it_was(aws, bucket, tmp_path, size):
    content = random.Random(size).randbytes(size)
    up = write(tmp_path / "up", content)
    aws("s3", "cp", up, f"s3://{bucket}/folder/a + b.bin", "--no-progress")
    aws("s3", "cp", f"s3://{bucket}/folder/a + b.bin", tmp_path / "down", "--no-progress")
    assert (tmp_path / "down").read_bytes() == content


def test_standard_input_becomes_an_object_and_an_object_standard_output(aws, bucket, stored):
    content = random.Random(1).randbytes(9_000_000)
    aws("s3", "cp", "-", f"s3://{bucket}/stream", given=content)
    assert stored(bucket) == {"stream": content}
    assert aws.bytes("s3", "cp", f"s3://{bucket}/stream", "-") == content


def test_a_folder_goes_up_and_comes_back_with_all_its_names(aws, bucket, tree, tmp_path, stored):
    aws("s3", "cp", "--recursive", tree, f"s3://{bucket}/", "--no-progress")
    assert stored(bucket) == files(tree)
    aws("s3", "cp", "--recursive", f"s3://{bucket}/", tmp_path / "down", "--no-progress")
    assert files(tmp_path / "down") == files(tree)


def test_a_second_sync_up_transfers_nothing_and_a_third_what_has_changed(aws, bucket, tree, stored):
    def sync(*more: str) -> list[str]:
        return aws("s3", "sync", tree, f"s3://{bucket}/up", "--no-progress", *more).lines

    assert len(sync()) == len(ODD_NAMES)
    assert sync() == []
    write(tree / "a+b.txt", b"of another length")
    (tree / "100%.txt").unlink()
    said = sync("--delete")
    assert sorted(line.split(":")[0] for line in said) == ["delete", "upload"], said
    assert stored(bucket) == {f"up/{name}": content for name, content in files(tree).items()}


def test_a_second_sync_down_transfers_nothing(aws, s3, bucket, tree, tmp_path):
    for name, content in files(tree).items():
        s3.put_object(Bucket=bucket, Key=name, Body=content)

    def sync() -> list[str]:
        return aws("s3", "sync", f"s3://{bucket}", tmp_path / "down", "--no-progress").lines

    assert len(sync()) == len(ODD_NAMES)
    assert files(tmp_path / "down") == files(tree)
    assert sync() == []


def test_what_is_moved_is_at_its_new_place_only(aws, bucket, tmp_path, stored):
    path = write(tmp_path / "file", b"content")
    aws("s3", "mv", path, f"s3://{bucket}/first name%")
    assert not path.exists() and stored(bucket) == {"first name%": b"content"}
    aws("s3", "mv", f"s3://{bucket}/first name%", f"s3://{bucket}/second+name")
    assert stored(bucket) == {"second+name": b"content"}
    aws("s3", "mv", f"s3://{bucket}/second+name", path)
    assert path.read_bytes() == b"content" and stored(bucket) == {}


def test_an_object_in_parts_is_copied_within_the_server(aws, s3, bucket, tmp_path, stored):
    content = random.Random(2).randbytes(IN_PARTS)
    aws("s3", "cp", write(tmp_path / "file", content), f"s3://{bucket}/one", "--no-progress")
    aws("s3", "cp", f"s3://{bucket}/one", f"s3://{bucket}/two", "--no-progress")
    assert stored(bucket) == {"one": content, "two": content}


@pytest.mark.parametrize("algorithm", ["SHA256", "CRC32", "SHA1"])
def test_an_object_in_parts_is_copied_with_a_checksum(aws, bucket, tmp_path, stored, algorithm):
    content = random.Random(3).randbytes(IN_PARTS)
    checked = ("--checksum-algorithm", algorithm, "--no-progress")
    aws("s3", "cp", write(tmp_path / "file", content), f"s3://{bucket}/one", *checked)
    aws("s3", "cp", f"s3://{bucket}/one", f"s3://{bucket}/two", *checked)
    assert stored(bucket) == {"one": content, "two": content}
    aws("s3", "cp", f"s3://{bucket}/two", tmp_path / "down", "--checksum-mode", "ENABLED", "--no-progress")
    assert (tmp_path / "down").read_bytes() == content


def test_a_summary_counts_objects_and_bytes(aws, s3, bucket, tree):
    for name, content in files(tree).items():
        s3.put_object(Bucket=bucket, Key=name, Body=content)
    lines = aws("s3", "ls", "--recursive", "--summarize", f"s3://{bucket}").lines
    # Date, time and size come before the name.
    listed = [line.split(maxsplit=3)[3] if line.count(" ") > 2 else line for line in lines[: len(ODD_NAMES)]]
    assert sorted(name.strip() for name in listed) == sorted(name.strip() for name in ODD_NAMES)
    total = sum(map(len, files(tree).values()))
    assert [line.split() for line in lines[-2:]] == [["Total", "Objects:", str(len(ODD_NAMES))], ["Total", "Size:", str(total)]]
    folders = [line.split(maxsplit=1)[1] for line in aws("s3", "ls", f"s3://{bucket}").lines if line.lstrip().startswith("PRE ")]
    assert folders == ["deep/", "grüße/"]


def test_all_under_a_prefix_is_removed_and_nothing_else(aws, s3, bucket, stored):
    for key in ["old/1 %", "old/2+", "old/grüße", "older", "new/1"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"content")
    aws("s3", "rm", "--recursive", f"s3://{bucket}/old/")
    assert stored(bucket).keys() == {"older", "new/1"}


@pytest.mark.parametrize("name", ["plain", "grüße/100% a+b ☃"])
def test_a_presigned_address_is_fetched_by_whoever_has_it(environment, tmp_path, s3, bucket, name):
    # Version 1 of this client presigns by Signature Version 2 in the regions that once had it, unless it is told otherwise.
    configuration = tmp_path / "configuration"
    configuration.write_text("[default]\ns3 =\n    signature_version = s3v4\n")
    aws = Program(find("venv/bin/aws"), {**environment, "AWS_CONFIG_FILE": str(configuration)})
    s3.put_object(Bucket=bucket, Key=name, Body=b"content")
    address = aws("s3", "presign", f"s3://{bucket}/{name}", "--expires-in", 60).out.strip()
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=30) as answer:
        assert answer.read() == b"content"


def test_an_archived_object_is_refused_then_restored_then_read(aws, bucket, tmp_path):
    content = random.Random(3).randbytes(100_000)
    which = ("--bucket", bucket, "--key", "archived object")
    aws("s3api", "put-object", *which, "--body", write(tmp_path / "up", content), "--storage-class", "GLACIER")
    assert "InvalidObjectState" in aws.fails("s3api", "get-object", *which, tmp_path / "down")
    assert json.loads(aws("s3api", "head-object", *which).out)["StorageClass"] == "GLACIER"
    aws("s3api", "restore-object", *which, "--restore-request", "Days=1,GlacierJobParameters={Tier=Expedited}")
    until(lambda: 'ongoing-request="false"' in json.loads(aws("s3api", "head-object", *which).out)["Restore"], "restored")
    aws("s3api", "get-object", *which, tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == content


def test_tags_are_put_and_read(aws, s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"content")
    tags = [{"Key": "colour", "Value": "dark blue"}, {"Key": "größe", "Value": "1+1=2"}]
    which = ("--bucket", bucket, "--key", "object")
    aws("s3api", "put-object-tagging", *which, "--tagging", json.dumps({"TagSet": tags}))
    found = json.loads(aws("s3api", "get-object-tagging", *which).out)["TagSet"]
    assert sorted(found, key=lambda tag: tag["Key"]) == tags


def test_versions_and_what_hides_them_are_listed_and_read(aws, bucket, tmp_path):
    aws("s3api", "put-bucket-versioning", "--bucket", bucket, "--versioning-configuration", "Status=Enabled")
    for content in (b"first", b"second"):
        aws("s3", "cp", write(tmp_path / "file", content), f"s3://{bucket}/a b")
    aws("s3", "rm", f"s3://{bucket}/a b")
    listed = json.loads(aws("s3api", "list-object-versions", "--bucket", bucket).out)
    assert [(entry["Key"], entry["Size"], entry["IsLatest"]) for entry in listed["Versions"]] == [("a b", 6, False), ("a b", 5, False)]
    assert [(entry["Key"], entry["IsLatest"]) for entry in listed["DeleteMarkers"]] == [("a b", True)]
    first = listed["Versions"][1]["VersionId"]
    aws("s3api", "get-object", "--bucket", bucket, "--key", "a b", "--version-id", first, tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == b"first"


def test_an_empty_body_that_was_announced_gets_a_100_or_ends_the_connection(bucket, server):
    # The client takes a final answer without a 100 before it, and then misreads the next one on the same connection:
    # a refusal would look like a success.
    wire = Wire(server)
    target = f"/{bucket}/empty"
    fields = wire.seal("PUT", target, {"Content-Length": "0", "Expect": "100-continue"}, sha256(b"").hexdigest(), wire.signer())
    with socket.create_connection(wire.address, timeout=30) as connection:
        head = f"PUT {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        connection.sendall(head.encode() + b"\r\n")
        with connection.makefile("rb") as answer:
            status = answer.readline().split()[1]
            answered = {line.strip().lower() for line in iter(answer.readline, b"\r\n")}
    assert status == b"100" or (status == b"200" and b"connection: close" in answered), (status, answered)
