"""`fulgurite migrate` from a bucket and to one: small objects go together, and each arrives as it is."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from serving import START_S, Own, connect

pytestmark = pytest.mark.skipif("S3_ENDPOINT" in os.environ, reason="no other server has it")

#: Bytes of objects: more than one answer, and some that are got alone.
SIZES = [*range(0, 300), *[100_000] * 60, 256 << 10, (256 << 10) + 1, 3 << 20]


class Migration:
    """A migration from the bucket `survey` of a server to a folder."""

    def __init__(self, own: Own, folder: Path, prefix: str = ""):
        self.own, self.folder, self.new = own, folder / "migration", folder / "new"
        self.new.mkdir()
        places = ["--from", f"s3://survey/{prefix}", "--to", str(self.new)]
        options = [f"endpoint={own.endpoint}", f"region={own.region}", "credentials=environment"]
        self.run("init", *places, *(f"--from-option={option}" for option in options))

    def run(self, what: str, *arguments: str, form: tuple[str, ...] = ("--json",)) -> subprocess.CompletedProcess:
        account = self.own.account
        keys = {"AWS_ACCESS_KEY_ID": account.access_key, "AWS_SECRET_ACCESS_KEY": account.secret_key}
        command = [str(self.own.program), *form, "migrate", what, str(self.folder), *arguments]
        return subprocess.run(command, env=os.environ | keys, capture_output=True, text=True, timeout=START_S)

    def arrived(self) -> dict[str, bytes]:
        files = (path for path in self.new.rglob("*") if path.is_file())
        return {str(path.relative_to(self.new)): path.read_bytes() for path in files}


def bulk_gets(own: Own) -> int:
    return own.log.read_text().count("completed a bulk get")


def assert_few(requests: int, files: int) -> None:
    """Small files went together: with four streams, lots of 256 files, and 4 MiB a request."""
    assert 0 < requests <= 4 + files // 10, requests


def make(own: Own, prefix: str = "") -> dict[str, bytes]:
    """Objects, half of them on platters."""
    s3, source = connect(own.server, own.account), random.Random(1)
    s3.create_bucket(Bucket="survey")
    names = [f"{prefix}{number % 7}/{number} ü&?%2F+\"'" for number in range(len(SIZES))]
    # In the archive, they are in another order than in lists.
    objects = {name: source.randbytes(size) for name, size in source.sample(list(zip(names, SIZES, strict=True)), len(SIZES))}
    for number, (name, content) in enumerate(objects.items()):
        s3.put_object(Bucket="survey", Key=name, Body=content)
        if number == len(objects) // 2:
            own.stop()
            assert own.run("flush").returncode == 0
            own.start()
            s3 = connect(own.server, own.account)
    return objects


def test_files_within_the_hold_time_are_counted_as_held(own: Own, tmp_path):
    with own:
        objects = make(own)
        migration = Migration(own, tmp_path)
        assert migration.run("run").returncode == 0
        for options in ((), ("--yes",)):
            assert json.loads(migration.run("forget", *options).stdout)["held"] == len(objects)
        said = migration.run("forget", "--yes", form=()).stdout
        assert "Removed 0 files" in said and f"{len(objects)} files are held: rules.hold keeps a file for 30.0 days" in said, said


def test_all_objects_arrive_as_they_are(own: Own, tmp_path):
    with own:
        objects = make(own)
        migration = Migration(own, tmp_path)
        ran = migration.run("run")
        assert ran.returncode == 0, ran
        assert migration.arrived() == objects
        assert_few(bulk_gets(own), len(objects))
        certificate = json.loads((migration.folder / "certificate.json").read_text())
        assert certificate["migrated"]["files"] == len(objects), certificate
        listed = (migration.folder / "migrated.sha256").read_text()
        assert all(hashlib.sha256(content).hexdigest() in listed for content in objects.values())


def test_objects_below_a_prefix(own: Own, tmp_path):
    with own:
        objects = make(own, "night/0 1/")
        migration = Migration(own, tmp_path, "night/0 1")
        ran = migration.run("run")
        assert ran.returncode == 0, ran
        assert migration.arrived() == {name.removeprefix("night/0 1/"): content for name, content in objects.items()}
        assert_few(bulk_gets(own), len(objects))


def test_objects_that_change_or_vanish_after_the_listing_fail_alone(own: Own, tmp_path):
    with own:
        objects = make(own)
        migration = Migration(own, tmp_path)
        assert migration.run("inventory").returncode == 0
        s3 = connect(own.server, own.account)
        small = [name for name, content in objects.items() if 0 < len(content) < 300]
        changed, longer, gone = small[10], small[20], small[30]
        # Of the same length: what is there when it is read is migrated.
        objects[changed] = bytes(len(objects[changed]))
        s3.put_object(Bucket="survey", Key=changed, Body=objects[changed])
        s3.put_object(Bucket="survey", Key=longer, Body=objects[longer] + b"longer")
        s3.delete_object(Bucket="survey", Key=gone)
        ran = migration.run("run")
        assert ran.returncode == 1, ran
        assert migration.arrived() == {name: content for name, content in objects.items() if name not in (longer, gone)}
        failed = json.loads(migration.run("report").stdout)["failed"]
        assert {file["name"] for file in failed} == {longer, gone}, failed
        assert_few(bulk_gets(own), len(objects))


class Upload:
    """A migration of a folder to the versioned bucket `survey` of a server."""

    def __init__(self, own: Own, folder: Path):
        self.own, self.old, self.folder = own, folder / "old", folder / "migration"
        self.s3, source = connect(own.server, own.account), random.Random(2)
        self.s3.create_bucket(Bucket="survey")
        self.s3.put_bucket_versioning(Bucket="survey", VersioningConfiguration={"Status": "Enabled"})
        self.files = {f"{number % 7}/{number} ü&?%2F+\"'": source.randbytes(size) for number, size in enumerate(SIZES)}
        for name, content in self.files.items():
            (self.old / name).parent.mkdir(parents=True, exist_ok=True)
            (self.old / name).write_bytes(content)
        options = [f"endpoint={own.endpoint}", f"region={own.region}", "credentials=environment"]
        self.run("init", "--from", str(self.old), "--to", "s3://survey/p", *(f"--to-option={option}" for option in options))

    run = Migration.run

    def stored(self) -> dict[str, bytes]:
        """The newest versions."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket="survey", Prefix="p/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return {key.removeprefix("p/"): self.s3.get_object(Bucket="survey", Key=key)["Body"].read() for key in keys}

    def versions(self) -> int:
        pages = self.s3.get_paginator("list_object_versions").paginate(Bucket="survey", Prefix="p/")
        keys = (version["Key"].removeprefix("p/") for page in pages for version in page.get("Versions", []))
        # `init` puts an empty object there for a moment.
        return sum(key in self.files for key in keys)

    def puts(self) -> int:
        """Single ones."""
        counters = (line.split() for line in self.own.get("/-/metrics")[1].splitlines())
        return sum(int(counter[1]) for counter in counters if counter[0].startswith('fulgurite_requests_total{method="PUT"'))


def test_a_folder_is_stored_once_with_few_requests(own: Own, tmp_path):
    with own:
        upload = Upload(own, tmp_path)
        name, puts = next(iter(upload.files)), upload.puts()
        ran = upload.run("run")
        assert ran.returncode == 0, ran
        assert upload.stored() == upload.files
        assert upload.versions() == len(upload.files), "a file was stored twice"
        assert_few(bulk_gets(own), len(upload.files))
        assert_few(upload.puts() - puts, len(upload.files))
        # What is lost there is written again, and nothing else.
        upload.s3.put_object(Bucket="survey", Key=f"p/{name}", Body=b"other")
        assert upload.run("scan").returncode == 1
        assert upload.run("run").returncode == 0
        assert upload.stored() == upload.files
        assert upload.versions() == len(upload.files) + 2


def test_objects_that_are_there_are_kept(own: Own, tmp_path):
    with own:
        upload = Upload(own, tmp_path)
        same, other, gone = list(upload.files)[100:103]
        upload.s3.put_object(Bucket="survey", Key=f"p/{same}", Body=upload.files[same])
        upload.s3.put_object(Bucket="survey", Key=f"p/{other}", Body=b"mine")
        upload.s3.put_object(Bucket="survey", Key=f"p/{gone}", Body=b"removed")
        upload.s3.delete_object(Bucket="survey", Key=f"p/{gone}")
        ran = upload.run("run")
        assert ran.returncode == 1, ran
        assert upload.stored() == upload.files | {other: b"mine"}
        assert upload.versions() == len(upload.files) + 1
        failed = json.loads(upload.run("report").stdout)["failed"]
        assert [file["name"] for file in failed] == [other], failed
