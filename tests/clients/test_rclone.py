"""rclone: the one of Debian, which is old and on the first SDK for Go, and a new one on the second."""

from __future__ import annotations

import json
import random

import pytest

from conftest import Program, files, find, until, write
from wire import Server

IN_PARTS = 12_000_001


@pytest.fixture(params=["go/bin/rclone", "debian/usr/bin/rclone"], ids=["new", "Debian's"])
def rclone(request, environment: dict[str, str], server: Server) -> Program:
    remote = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": server.endpoint,
        "REGION": server.region,
        "ACCESS_KEY_ID": server.main.access_key,
        "SECRET_ACCESS_KEY": server.main.secret_key,
        "UPLOAD_CUTOFF": "5Mi",
        "CHUNK_SIZE": "5Mi",
    }
    remote = {f"RCLONE_CONFIG_GLASS_{name}": value for name, value in remote.items()}
    # A failure is to be seen, not mended by trying again.
    return Program(find(request.param), environment | remote, ("--config", "", "--retries", "1", "--low-level-retries", "1"))


def transferred(rclone: Program, *arguments: object) -> int:
    """How many files a copy or sync has transferred, as its log says."""
    return rclone(*arguments, "-v", "--use-json-log").err.count("Copied (")


def test_a_folder_goes_up_and_comes_back_with_all_its_names(rclone, bucket, tree, tmp_path, stored):
    write(tree / "in parts.bin", random.Random(1).randbytes(IN_PARTS))
    rclone("copy", tree, f"glass:{bucket}/a + b")
    assert stored(bucket) == {f"a + b/{name}": content for name, content in files(tree).items()}
    rclone("copy", f"glass:{bucket}/a + b", tmp_path / "down")
    assert files(tmp_path / "down") == files(tree)


def test_a_second_sync_transfers_nothing_and_a_third_what_has_changed(rclone, bucket, tree, stored):
    assert transferred(rclone, "sync", tree, f"glass:{bucket}") == len(files(tree))
    assert transferred(rclone, "sync", tree, f"glass:{bucket}") == 0
    write(tree / "a+b.txt", b"of another length")
    (tree / "100%.txt").unlink()
    assert transferred(rclone, "sync", tree, f"glass:{bucket}") == 1
    assert stored(bucket) == files(tree)


def test_times_of_files_survive(rclone, bucket, tree, tmp_path):
    rclone("copy", tree, f"glass:{bucket}")
    rclone("copy", f"glass:{bucket}", tmp_path / "down")
    for name in files(tree):
        assert (tmp_path / "down" / name).stat().st_mtime_ns == (tree / name).stat().st_mtime_ns, name


@pytest.mark.parametrize("how", [(), ("--download",)], ids=["by hash", "by content"])
def test_a_check_finds_what_differs(rclone, s3, bucket, tree, how):
    rclone("copy", tree, f"glass:{bucket}")
    assert "0 differences found" in rclone("check", tree, f"glass:{bucket}", *how).err
    content = files(tree)["a+b.txt"]
    s3.put_object(Bucket=bucket, Key="a+b.txt", Body=content[:-1] + b"x")
    s3.delete_object(Bucket=bucket, Key="100%.txt")
    assert "2 differences found" in rclone.fails("check", tree, f"glass:{bucket}", *how)


def test_names_and_sizes_are_listed(rclone, bucket, tree):
    rclone("copy", tree, f"glass:{bucket}")
    listed = rclone("lsf", "--recursive", "--files-only", "--format", "sp", "--separator", "|", f"glass:{bucket}").lines
    assert sorted(listed) == sorted(f"{len(content)}|{name}" for name, content in files(tree).items())
    folders = rclone("lsf", "--dirs-only", f"glass:{bucket}").lines
    assert sorted(folders) == ["deep/", "grüße/"]


def test_a_range_of_an_object_is_read(rclone, s3, bucket):
    content = random.Random(2).randbytes(100_000)
    s3.put_object(Bucket=bucket, Key="100% ☃", Body=content)
    assert rclone.bytes("cat", f"glass:{bucket}/100% ☃", "--offset", 70_001, "--count", 4_096) == content[70_001:74_097]
    assert rclone.bytes("cat", f"glass:{bucket}/100% ☃", "--offset", -10) == content[-10:]
    assert rclone.bytes("cat", f"glass:{bucket}/100% ☃") == content


def test_an_object_is_copied_within_the_server(rclone, s3, bucket, stored):
    s3.put_object(Bucket=bucket, Key="from/100% +.txt", Body=b"content")
    rclone("copy", f"glass:{bucket}/from", f"glass:{bucket}/to")
    assert stored(bucket)["to/100% +.txt"] == b"content"


def test_archived_objects_are_refused_then_restored_then_read(rclone, s3, bucket, tree, tmp_path):
    rclone("copy", "--s3-storage-class", "GLACIER", tree, f"glass:{bucket}/archived")
    classes = {entry["StorageClass"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert classes == {"GLACIER"}
    rclone.fails("copy", f"glass:{bucket}/archived", tmp_path / "down")
    answers = json.loads(rclone("backend", "restore", f"glass:{bucket}/archived", "-o", "priority=Expedited", "-o", "lifetime=1").out)
    assert sorted(answer["Remote"] for answer in answers) == sorted(files(tree))
    assert {answer["Status"] for answer in answers} == {"OK"}
    for name in files(tree):
        which = {"Bucket": bucket, "Key": f"archived/{name}"}
        until(lambda: 'ongoing-request="false"' in s3.head_object(**which)["Restore"], name)
    rclone("copy", f"glass:{bucket}/archived", tmp_path / "down")
    assert files(tmp_path / "down") == files(tree)


def test_the_state_of_restores_is_told(rclone, s3, bucket):
    if "restore-status" not in rclone("backend", "help", "glass:").out:
        # So it is with Debian's; the test above has asked the server.
        return
    for key in ("one", "two"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"archived", StorageClass="GLACIER")
    s3.put_object(Bucket=bucket, Key="not archived", Body=b"online")

    def told(*more: str) -> dict[str, dict]:
        listed = json.loads(rclone("backend", "restore-status", f"glass:{bucket}", *more).out)
        return {entry["Remote"]: entry["RestoreStatus"] or {} for entry in listed}

    assert told("-o", "all").keys() == {"one", "two", "not archived"}
    rclone("backend", "restore", f"glass:{bucket}", "--include", "one", "-o", "priority=Expedited", "-o", "lifetime=1")
    until(lambda: 'ongoing-request="false"' in s3.head_object(Bucket=bucket, Key="one")["Restore"], "restored")
    one = told()["one"]
    assert one["IsRestoreInProgress"] is False and one["RestoreExpiryDate"]
    assert not told("-o", "all")["two"]


def test_what_is_deleted_or_purged_is_gone(rclone, bucket, tree, stored, buckets):
    rclone("copy", tree, f"glass:{bucket}/keep")
    rclone("copy", tree, f"glass:{bucket}/drop")
    rclone("delete", f"glass:{bucket}/drop")
    assert stored(bucket).keys() == {f"keep/{name}" for name in files(tree)}
    rclone("purge", f"glass:{bucket}/keep")
    assert stored(bucket) == {}
    rclone("purge", f"glass:{bucket}")
    assert bucket not in buckets()
