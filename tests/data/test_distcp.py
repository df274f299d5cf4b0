"""Hadoop's DistCp between folders and buckets, in one process."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

CONTENTS = {
    "plain": b"content",
    "empty": b"",
    "deep/er/with space + 100% é.txt": b"odd name",
    # More than S3A's part size in this test.
    "large": random.Random(1).randbytes(12_000_001),
} | {f"many/{number:03}": random.Random(number).randbytes(number * 97) for number in range(100)}
PARTS = "-Dfs.s3a.multipart.size=5M"


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, content in CONTENTS.items():
        path = tmp_path / "from" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "from"


def objects(stored: dict[str, bytes]) -> dict[str, bytes]:
    """Without the objects that S3A puts for folders."""
    return {key.removeprefix("to/"): content for key, content in stored.items() if not key.endswith("/")}


def files(folder: Path) -> dict[str, bytes]:
    """Without the checksums that Hadoop keeps beside local files."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("how", [(), ("-direct",)], ids=["by rename", "direct"])
def test_a_folder_becomes_objects(distcp, folder, bucket, stored, how):
    said = distcp(PARTS, *how, folder.as_uri(), f"s3a://{bucket}/to")
    assert said["Files Copied"] == len(CONTENTS)
    assert objects(stored(bucket)) == CONTENTS


def test_objects_become_a_folder(distcp, bucket, put_all, tmp_path):
    put_all(bucket, {f"from/{name}": content for name, content in CONTENTS.items()})
    distcp(f"s3a://{bucket}/from", (tmp_path / "to").as_uri())
    assert files(tmp_path / "to") == CONTENTS


def test_an_update_copies_what_changed_and_deletes_what_is_gone(distcp, folder, bucket, stored):
    distcp(PARTS, "-direct", folder.as_uri(), f"s3a://{bucket}/to")
    changed = CONTENTS | {"plain": b"of another length"}
    del changed["many/007"]
    (folder / "plain").write_bytes(changed["plain"])
    (folder / "many/007").unlink()
    said = distcp(PARTS, "-direct", "-update", "-delete", folder.as_uri(), f"s3a://{bucket}/to")
    assert (said["Files Copied"], said["Files Skipped"]) == (1, len(changed) - 1)
    assert objects(stored(bucket)) == changed
