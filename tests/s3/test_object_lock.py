"""Object Lock: versions that nobody deletes before their time, and what may be changed meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wire import refused, status


def later(**span) -> datetime:
    return (datetime.now(UTC) + timedelta(**span)).replace(microsecond=0)


# AWS's list of errors has 404 for it, and other servers that are held to AWS answer 400.
NO_LOCK = {400, 404}


# Compliance holds against the clean-up too: the buckets of these tests stay until the server's data is thrown away.
@pytest.fixture
def locked(make_bucket) -> str:
    return make_bucket(ObjectLockEnabledForBucket=True)


def put(s3, bucket: str, body: bytes = b"body", **settings) -> dict:
    version = s3.put_object(Bucket=bucket, Key="object", Body=body, **settings)["VersionId"]
    return {"Bucket": bucket, "Key": "object", "VersionId": version}


def retain(s3, which: dict, mode: str, until: datetime, **settings):
    return s3.put_object_retention(**which, Retention={"Mode": mode, "RetainUntilDate": until}, **settings)


def retention(s3, which: dict) -> tuple[str, datetime]:
    found = s3.get_object_retention(**which)["Retention"]
    return found["Mode"], found["RetainUntilDate"]


def rule(**default) -> dict:
    return {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": default}}


def test_a_bucket_with_locks_has_versions_that_stay_on(s3, locked):
    found = s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]
    assert found["ObjectLockEnabled"] == "Enabled" and not found.get("Rule")
    assert s3.get_bucket_versioning(Bucket=locked)["Status"] == "Enabled"
    with refused("InvalidBucketState", 409):
        s3.put_bucket_versioning(Bucket=locked, VersioningConfiguration={"Status": "Suspended"})


def test_a_bucket_without_locks_has_no_configuration(s3, bucket):
    with refused("ObjectLockConfigurationNotFoundError", 404):
        s3.get_object_lock_configuration(Bucket=bucket)
    with refused("InvalidBucketState", 409):
        s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=rule(Mode="GOVERNANCE", Days=1))


def test_locks_can_be_switched_on_for_a_bucket_with_versions(s3, versioned):
    s3.put_object_lock_configuration(Bucket=versioned, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
    assert s3.get_object_lock_configuration(Bucket=versioned)["ObjectLockConfiguration"]["ObjectLockEnabled"] == "Enabled"
    which = put(s3, versioned, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later(days=1))
    with refused("AccessDenied", 403):
        s3.delete_object(**which)


def test_a_bucket_without_locks_takes_no_locked_object(s3, bucket):
    with refused("InvalidRequest", 400):
        s3.put_object(Bucket=bucket, Key="object", Body=b"", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later(days=1))
    with refused("InvalidRequest", 400):
        s3.put_object(Bucket=bucket, Key="object", Body=b"", ObjectLockLegalHoldStatus="ON")
    s3.put_object(Bucket=bucket, Key="object", Body=b"")
    which = {"Bucket": bucket, "Key": "object"}
    for call in (
        lambda: retain(s3, which, "GOVERNANCE", later(days=1)),
        lambda: s3.put_object_legal_hold(**which, LegalHold={"Status": "ON"}),
        lambda: s3.get_object_retention(**which),
        lambda: s3.get_object_legal_hold(**which),
    ):
        with refused("InvalidRequest", 400):
            call()


def test_an_object_nobody_locked_has_no_lock(s3, locked):
    which = put(s3, locked)
    with refused("NoSuchObjectLockConfiguration", NO_LOCK):
        s3.get_object_retention(**which)
    with refused("NoSuchObjectLockConfiguration", NO_LOCK):
        s3.get_object_legal_hold(**which)
    assert not {"ObjectLockMode", "ObjectLockLegalHoldStatus"} & s3.head_object(**which).keys()
    assert status(s3.delete_object(**which)) == 204


@pytest.mark.parametrize("call", ["get_object", "head_object"])
def test_a_read_tells_the_lock(s3, locked, call):
    until = later(days=1)
    which = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until, ObjectLockLegalHoldStatus="ON")
    answer = getattr(s3, call)(**which)
    assert (answer["ObjectLockMode"], answer["ObjectLockRetainUntilDate"], answer["ObjectLockLegalHoldStatus"]) == (
        "GOVERNANCE",
        until,
        "ON",
    )


@pytest.mark.parametrize("mode", ["GOVERNANCE", "COMPLIANCE"])
def test_a_locked_version_cant_be_deleted(s3, locked, mode):
    which = put(s3, locked, ObjectLockMode=mode, ObjectLockRetainUntilDate=later(minutes=5))
    with refused("AccessDenied", 403):
        s3.delete_object(**which)
    answer = s3.delete_objects(Bucket=locked, Delete={"Objects": [{"Key": "object", "VersionId": which["VersionId"]}]})
    assert [entry["Code"] for entry in answer["Errors"]] == ["AccessDenied"] and "Deleted" not in answer
    assert s3.get_object(**which)["Body"].read() == b"body"


def test_a_locked_version_can_be_hidden_and_written_over(s3, locked):
    which = put(s3, locked, b"locked", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later(days=1))
    marker = s3.delete_object(Bucket=locked, Key="object")
    assert marker["DeleteMarker"]
    put(s3, locked, b"newer")
    assert s3.get_object(Bucket=locked, Key="object")["Body"].read() == b"newer"
    assert s3.get_object(**which)["Body"].read() == b"locked"
    # The marker has no lock of its own.
    assert status(s3.delete_object(Bucket=locked, Key="object", VersionId=marker["VersionId"])) == 204


def test_governance_yields_to_who_asks_to_bypass_it(s3, locked):
    which = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later(days=1))
    assert status(s3.delete_object(**which, BypassGovernanceRetention=True)) == 204
    with refused("NoSuchVersion", 404):
        s3.get_object(**which)
    which = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later(days=1))
    objects = {"Objects": [{"Key": "object", "VersionId": which["VersionId"]}]}
    assert len(s3.delete_objects(Bucket=locked, Delete=objects, BypassGovernanceRetention=True)["Deleted"]) == 1


def test_compliance_yields_to_nobody(s3, locked):
    until = later(minutes=5)
    which = put(s3, locked, ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=until)
    for call in (
        lambda: s3.delete_object(**which, BypassGovernanceRetention=True),
        lambda: retain(s3, which, "COMPLIANCE", until - timedelta(minutes=1), BypassGovernanceRetention=True),
        lambda: retain(s3, which, "GOVERNANCE", until, BypassGovernanceRetention=True),
    ):
        with refused("AccessDenied", 403):
            call()
    assert retention(s3, which) == ("COMPLIANCE", until)


@pytest.mark.parametrize("mode", ["GOVERNANCE", "COMPLIANCE"])
def test_a_lock_can_be_made_longer(s3, locked, mode):
    until = later(minutes=5)
    which = put(s3, locked, ObjectLockMode=mode, ObjectLockRetainUntilDate=until)
    retain(s3, which, mode, until + timedelta(minutes=1))
    assert retention(s3, which) == (mode, until + timedelta(minutes=1))


def test_a_governed_lock_is_made_shorter_by_bypass_alone(s3, locked):
    until = later(days=2)
    which = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    with refused("AccessDenied", 403):
        retain(s3, which, "GOVERNANCE", until - timedelta(days=1))
    assert retention(s3, which) == ("GOVERNANCE", until)
    retain(s3, which, "GOVERNANCE", until - timedelta(days=1), BypassGovernanceRetention=True)
    assert retention(s3, which) == ("GOVERNANCE", until - timedelta(days=1))


def test_a_governed_lock_becomes_a_strict_one(s3, locked):
    until = later(minutes=5)
    which = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    with refused("AccessDenied", 403):
        retain(s3, which, "COMPLIANCE", until)
    retain(s3, which, "COMPLIANCE", until, BypassGovernanceRetention=True)
    assert retention(s3, which) == ("COMPLIANCE", until)


def test_a_legal_hold_has_no_end_but_its_release(s3, locked):
    which = put(s3, locked)
    s3.put_object_legal_hold(**which, LegalHold={"Status": "ON"})
    assert s3.get_object_legal_hold(**which)["LegalHold"]["Status"] == "ON"
    for bypass in (False, True):
        with refused("AccessDenied", 403):
            s3.delete_object(**which, BypassGovernanceRetention=bypass)
    s3.put_object_legal_hold(**which, LegalHold={"Status": "OFF"})
    assert s3.get_object_legal_hold(**which)["LegalHold"]["Status"] == "OFF"
    assert status(s3.delete_object(**which)) == 204


def test_a_hold_and_a_lock_stand_each_for_itself(s3, locked):
    which = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later(days=1), ObjectLockLegalHoldStatus="ON")
    with refused("AccessDenied", 403):
        s3.delete_object(**which, BypassGovernanceRetention=True)
    s3.put_object_legal_hold(**which, LegalHold={"Status": "OFF"})
    with refused("AccessDenied", 403):
        s3.delete_object(**which)
    assert status(s3.delete_object(**which, BypassGovernanceRetention=True)) == 204


@pytest.mark.parametrize("unit, count, days", [("Days", 3, 3), ("Years", 1, 365)])
def test_what_is_put_gets_the_retention_of_the_bucket(s3, locked, unit, count, days):
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=rule(Mode="GOVERNANCE", **{unit: count}))
    found = s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]
    assert found == rule(Mode="GOVERNANCE", **{unit: count})
    mode, until = retention(s3, put(s3, locked))
    assert mode == "GOVERNANCE"
    # A year may be a leap year.
    assert timedelta(minutes=-1) < until - later(days=days) < timedelta(days=1, minutes=1)


def test_what_says_its_own_retention_has_that(s3, locked):
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=rule(Mode="GOVERNANCE", Days=30))
    until = later(minutes=5)
    assert retention(s3, put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)) == ("GOVERNANCE", until)


def test_the_retention_of_the_bucket_is_for_what_comes_after_it(s3, locked):
    which = put(s3, locked)
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=rule(Mode="GOVERNANCE", Days=1))
    assert status(s3.delete_object(**which)) == 204


@pytest.mark.parametrize("way", ["multipart", "copy"])
def test_the_retention_of_the_bucket_holds_for_uploads_and_copies(s3, locked, way):
    source = put(s3, locked)
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=rule(Mode="GOVERNANCE", Days=1))
    which = {"Bucket": locked, "Key": way}
    if way == "copy":
        version = s3.copy_object(**which, CopySource=source)["VersionId"]
    else:
        upload = s3.create_multipart_upload(**which)["UploadId"]
        tag = s3.upload_part(**which, UploadId=upload, PartNumber=1, Body=b"body")["ETag"]
        parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
        version = s3.complete_multipart_upload(**which, UploadId=upload, MultipartUpload=parts)["VersionId"]
    assert retention(s3, which | {"VersionId": version})[0] == "GOVERNANCE"


def test_a_copy_does_not_take_the_lock_along(s3, locked):
    source = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later(days=1), ObjectLockLegalHoldStatus="ON")
    version = s3.copy_object(Bucket=locked, Key="copy", CopySource=source)["VersionId"]
    assert status(s3.delete_object(Bucket=locked, Key="copy", VersionId=version)) == 204


def test_an_upload_is_locked_as_it_was_begun(s3, locked):
    which, until = {"Bucket": locked, "Key": "object"}, later(days=1)
    upload = s3.create_multipart_upload(
        **which, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until, ObjectLockLegalHoldStatus="ON"
    )["UploadId"]
    tag = s3.upload_part(**which, UploadId=upload, PartNumber=1, Body=b"body")["ETag"]
    s3.complete_multipart_upload(**which, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
    head = s3.head_object(**which)
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"], head["ObjectLockLegalHoldStatus"]) == ("GOVERNANCE", until, "ON")


def test_every_version_has_a_lock_of_its_own(s3, locked):
    one = put(s3, locked, b"one", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later(days=1))
    two = put(s3, locked, b"two")
    assert status(s3.delete_object(**two)) == 204
    with refused("AccessDenied", 403):
        s3.delete_object(**one)
    # Without a version it is the latest that is meant.
    s3.put_object_legal_hold(Bucket=locked, Key="object", LegalHold={"Status": "ON"})
    assert s3.get_object_legal_hold(**one)["LegalHold"]["Status"] == "ON"


BAD_RULES = {
    "days and years": (rule(Mode="GOVERNANCE", Days=1, Years=1), "MalformedXML"),
    "neither": (rule(Mode="GOVERNANCE"), "MalformedXML"),
    "mode": (rule(Mode="STRICT", Days=1), "MalformedXML"),
    "no days": (rule(Mode="GOVERNANCE", Days=0), "InvalidRetentionPeriod"),
    "negative": (rule(Mode="GOVERNANCE", Years=-1), "InvalidRetentionPeriod"),
    "a century and a year": (rule(Mode="GOVERNANCE", Years=101), "InvalidArgument"),
    "not enabled": ({"ObjectLockEnabled": "Disabled"}, "MalformedXML"),
}


@pytest.mark.parametrize("case", BAD_RULES)
def test_a_rule_that_is_none_is_refused(s3, locked, case):
    given, code = BAD_RULES[case]
    with refused(code, 400):
        s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=given)
    assert not s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"].get("Rule")


def test_a_retention_that_is_none_is_refused(s3, locked):
    which = put(s3, locked)
    with refused("MalformedXML", 400):
        retain(s3, which, "STRICT", later(days=1))
    with refused("InvalidArgument", 400):
        retain(s3, which, "GOVERNANCE", later(days=-1))
    with refused({"MalformedXML", "InvalidArgument"}, 400):
        s3.put_object_retention(**which, Retention={"Mode": "GOVERNANCE"})
    with refused("MalformedXML", 400):
        s3.put_object_legal_hold(**which, LegalHold={"Status": "PERHAPS"})
    with refused("NoSuchObjectLockConfiguration", NO_LOCK):
        s3.get_object_retention(**which)


@pytest.mark.parametrize(
    "settings",
    [
        {"ObjectLockMode": "GOVERNANCE"},
        {"ObjectLockRetainUntilDate": later(days=1)},
        {"ObjectLockMode": "STRICT", "ObjectLockRetainUntilDate": later(days=1)},
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": later(days=-1)},
        {"ObjectLockLegalHoldStatus": "PERHAPS"},
    ],
    ids=["mode alone", "date alone", "unknown mode", "past", "unknown hold"],
)
def test_a_put_with_a_lock_that_is_none_stores_nothing(s3, locked, settings):
    with refused("InvalidArgument", 400):
        put(s3, locked, **settings)
    assert "Versions" not in s3.list_object_versions(Bucket=locked)


def test_nobody_else_changes_locks(s3, alt, locked):
    which = put(s3, locked, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=later(days=1))
    with refused("AccessDenied", 403):
        alt.put_object_legal_hold(**which, LegalHold={"Status": "ON"})
    with refused("AccessDenied", 403):
        retain(alt, which, "GOVERNANCE", later(days=2))
    with refused("AccessDenied", 403):
        alt.delete_object(**which, BypassGovernanceRetention=True)


def test_what_is_not_there_has_no_lock(s3, locked):
    with refused("NoSuchKey", 404):
        s3.get_object_retention(Bucket=locked, Key="nothing")
    with refused("NoSuchKey", 404):
        s3.put_object_legal_hold(Bucket=locked, Key="nothing", LegalHold={"Status": "ON"})


def test_an_upload_begun_before_its_bucket_had_a_default_is_kept_by_it(s3, locked):
    which = {"Bucket": locked, "Key": "object"}
    upload = s3.create_multipart_upload(**which)["UploadId"]
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=rule(Mode="GOVERNANCE", Days=2))
    part = s3.upload_part(**which, UploadId=upload, PartNumber=1, Body=b"body")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    version = s3.complete_multipart_upload(**which, UploadId=upload, MultipartUpload=parts)["VersionId"]
    mode, until = retention(s3, {**which, "VersionId": version})
    assert mode == "GOVERNANCE" and later(days=1) < until < later(days=3)
    with refused("AccessDenied", 403):
        s3.delete_object(**which, VersionId=version)


def test_what_an_upload_was_begun_with_outweighs_a_default_that_came_later(s3, locked):
    which, until = {"Bucket": locked, "Key": "object"}, later(days=9)
    upload = s3.create_multipart_upload(**which, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)["UploadId"]
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=rule(Mode="GOVERNANCE", Days=2))
    part = s3.upload_part(**which, UploadId=upload, PartNumber=1, Body=b"body")["ETag"]
    s3.complete_multipart_upload(**which, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    assert retention(s3, which) == ("GOVERNANCE", until)
