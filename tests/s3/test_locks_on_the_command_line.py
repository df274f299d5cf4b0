"""What Object Lock keeps, the command line keeps too: `fulgurite rm` beside a server that has stopped, and what S3 would put in its place."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from serving import Own, connect
from wire import refused

UNTIL = (datetime.now(UTC) + timedelta(days=400)).replace(microsecond=0)
DATE = UNTIL.strftime("%Y-%m-%d %H:%M:%S UTC")


def versions(own: Own, name: str) -> list[int]:
    listed = own.run("--json", "ls", "--versions", name)
    return [json.loads(line)["version"] for line in listed.stdout.splitlines()]


def locked(own: Own):
    client = connect(own.server, own.account)
    client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    return client


def put(client, key: str, **settings) -> dict:
    version = client.put_object(Bucket="locked", Key=key, Body=key.encode(), **settings)["VersionId"]
    return {"Bucket": "locked", "Key": key, "VersionId": version}


def retain(client, which: dict, mode: str):
    client.put_object_retention(**which, Retention={"Mode": mode, "RetainUntilDate": UNTIL})


@pytest.mark.parametrize("later", [False, True], ids=["put-with-it", "said-later"])
@pytest.mark.parametrize("mode", ["GOVERNANCE", "COMPLIANCE"])
def test_retention_holds_and_only_governance_can_be_passed_over(own, mode, later):
    with own:
        client = locked(own)
        if later:
            retain(client, put(client, "object"), mode)
        else:
            put(client, "object", ObjectLockMode=mode, ObjectLockRetainUntilDate=UNTIL)
        put(client, "object")
    said = f"version 1 of locked/object is under retention in {mode.lower()} mode until {DATE}; nothing was removed"
    for arguments in (["locked/object"], ["--version", "1", "locked/object"], ["-r", "locked"]):
        ran = own.run("rm", *arguments)
        assert ran.returncode == 1 and said in ran.stderr, ran
        assert ("--bypass-governance-retention" in ran.stderr) == (mode == "GOVERNANCE")
    assert versions(own, "locked/object") == [2, 1]
    assert own.run("rm", "--version", "2", "locked/object").returncode == 0, "nothing holds that version"
    ran = own.run("rm", "--bypass-governance-retention", "locked/object")
    assert ran.returncode == (0 if mode == "GOVERNANCE" else 1), ran
    assert versions(own, "locked/object") == ([] if mode == "GOVERNANCE" else [1])


def test_a_legal_hold_holds_until_it_is_taken_away(own):
    with own:
        client = locked(own)
        put(client, "put-with-it", ObjectLockLegalHoldStatus="ON")
        later = put(client, "said-later")
        client.put_object_legal_hold(**later, LegalHold={"Status": "ON"})
        client.delete_object(Bucket="locked", Key="said-later")
    for name in ("put-with-it", "said-later"):
        ran = own.run("rm", "--bypass-governance-retention", f"locked/{name}")
        assert ran.returncode == 1 and f"version 1 of locked/{name} is under legal hold; nothing was removed" in ran.stderr, ran
    ran = own.run("rm", "-r", "locked")
    assert ran.returncode == 1 and "and another one is locked" in ran.stderr, ran
    assert own.run("rm", "--version", "2", "locked/said-later").returncode == 0, "a deletion marker is held by nothing"
    with own:
        connect(own.server, own.account).put_object_legal_hold(**later, LegalHold={"Status": "OFF"})
    assert own.run("rm", "locked/said-later").returncode == 0


def test_one_that_is_locked_keeps_all_that_are_named_with_it(own):
    with own:
        client = locked(own)
        put(client, "free")
        retain(client, put(client, "kept"), "COMPLIANCE")
    ran = own.run("rm", "locked/free", "locked/kept")
    assert ran.returncode == 1 and "locked/kept" in ran.stderr, ran
    assert own.run("ls", "locked").stdout == "locked/free\nlocked/kept\n"
    assert own.run("rm", "locked/free").returncode == 0


def test_without_service_db_nothing_is_removed_until_it_is_made_anew(own):
    with own:
        client = locked(own)
        retain(client, put(client, "object"), "COMPLIANCE")
        put(client, "free")
    for path in own.archive.glob("service.db*"):
        path.unlink()
    ran = own.run("rm", "locked/free")
    assert ran.returncode == 1 and "fulgurite serve" in ran.stderr, ran
    with own:
        pass
    assert own.run("rm", "locked/free").returncode == 0
    assert own.run("rm", "locked/object").returncode == 1


def test_what_is_locked_is_not_replaced_in_a_bucket_that_was_made_again_without_locks(own):
    with own:
        put(locked(own), "object", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=UNTIL)
    for path in own.archive.glob("service.db*"):
        path.unlink()
    own.start("--without-copy")
    client = connect(own.server, own.account)
    client.create_bucket(Bucket="locked")
    key = {"Bucket": "locked", "Key": "object"}
    for call in (
        lambda: client.put_object(**key, Body=b"another"),
        lambda: client.copy_object(**key, CopySource=key, MetadataDirective="REPLACE"),
        lambda: client.delete_object(**key),
    ):
        with refused("AccessDenied", 403):
            call()
    assert client.get_object(**key)["Body"].read() == b"object"
    client.delete_object(**key, BypassGovernanceRetention=True)
    own.stop()
