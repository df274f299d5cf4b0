"""Lifecycle rules: how they are put and shown, and what they remove."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from serving import Own, connect, wait_until
from wire import refused, status

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def put(s3, bucket: str, *rules: dict) -> None:
    rules = [{"Status": "Enabled", **rule} for rule in rules]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


def shown(s3, bucket: str) -> list[dict]:
    return s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]


def bodies(s3, bucket: str, key: str = "object") -> list[bytes]:
    """The content of all versions of a key, newest first; `b"marker"` is a deletion marker."""
    listing = s3.list_object_versions(Bucket=bucket, Prefix=key)
    versions = [(entry, False) for entry in listing.get("Versions", [])] + [(entry, True) for entry in listing.get("DeleteMarkers", [])]
    # Version IDs sort by time.
    ids = sorted(((entry["VersionId"], is_marker) for entry, is_marker in versions if entry["Key"] == key), reverse=True)
    return [b"marker" if is_marker else s3.get_object(Bucket=bucket, Key=key, VersionId=id)["Body"].read() for id, is_marker in ids]


def until(found, wanted) -> None:
    """Waits for what a walk does in the background."""
    wait_until(f"{wanted}", lambda: found() == wanted)


FORMS = [
    {"ID": "prefix", "Filter": {"Prefix": "raw/"}, "Expiration": {"Days": 3}},
    {"ID": "all", "Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 30, "NewerNoncurrentVersions": 2}},
    {"ID": "old form", "Prefix": "", "Expiration": {"Date": MIDNIGHT}},
    {"ID": "tag", "Filter": {"Tag": {"Key": "k", "Value": "v"}}, "Expiration": {"Days": 1}},
    {"ID": "larger", "Filter": {"ObjectSizeGreaterThan": 5}, "Expiration": {"Days": 1}},
    {
        "ID": "several",
        "Filter": {"And": {"Prefix": "a", "Tags": [{"Key": "k", "Value": "v"}, {"Key": "l", "Value": ""}], "ObjectSizeLessThan": 9}},
        "NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 7},
    },
    {"ID": "markers", "Filter": {"Prefix": ""}, "Expiration": {"ExpiredObjectDeleteMarker": True}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}},
]


@pytest.mark.parametrize("rule", FORMS, ids=[rule["ID"] for rule in FORMS])
def test_a_rule_is_shown_as_it_was_put(s3, bucket, rule):
    rule = {**rule, "Status": "Disabled"}
    put(s3, bucket, rule)
    assert shown(s3, bucket) == [rule]


def test_all_rules_are_shown_in_order_until_they_are_deleted(s3, bucket):
    with refused("NoSuchLifecycleConfiguration", 404):
        shown(s3, bucket)
    rules = [{**rule, "Status": "Disabled"} for rule in FORMS]
    put(s3, bucket, *rules)
    assert shown(s3, bucket) == rules
    put(s3, bucket, rules[0])
    assert shown(s3, bucket) == rules[:1]
    assert status(s3.delete_bucket_lifecycle(Bucket=bucket)) == 204
    assert status(s3.delete_bucket_lifecycle(Bucket=bucket)) == 204
    with refused("NoSuchLifecycleConfiguration", 404):
        shown(s3, bucket)


def test_a_rule_without_a_name_gets_one(s3, bucket):
    put(s3, bucket, {"Filter": {}, "Expiration": {"Days": 1}}, {"Filter": {"Prefix": "b"}, "Expiration": {"Days": 1}})
    one, other = (rule["ID"] for rule in shown(s3, bucket))
    assert one and other and one != other


WRONG = {
    "no action": ({"Filter": {}}, "InvalidRequest", 400),
    "no filter": ({"Expiration": {"Days": 1}}, "MalformedXML", 400),
    "filter and prefix": ({"Filter": {}, "Prefix": "", "Expiration": {"Days": 1}}, "MalformedXML", 400),
    "two conditions": ({"Filter": {"Prefix": "a", "ObjectSizeLessThan": 5}, "Expiration": {"Days": 1}}, "MalformedXML", 400),
    "status": ({"Status": "enabled", "Filter": {}, "Expiration": {"Days": 1}}, "MalformedXML", 400),
    "no days": ({"Filter": {}, "Expiration": {"Days": 0}}, "InvalidArgument", 400),
    "two ends": ({"Filter": {}, "Expiration": {"Days": 1, "Date": MIDNIGHT}}, "MalformedXML", 400),
    "noon": ({"Filter": {}, "Expiration": {"Date": MIDNIGHT + timedelta(hours=12)}}, "InvalidArgument", 400),
    "nothing noncurrent": ({"Filter": {}, "NoncurrentVersionExpiration": {}}, "MalformedXML", 400),
    "noncurrent days": ({"Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 0}}, "InvalidArgument", 400),
    "none kept": ({"Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 0}}, "InvalidArgument", 400),
    "too many kept": ({"Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 101}}, "InvalidArgument", 400),
    "sizes": ({"Filter": {"And": {"ObjectSizeGreaterThan": 9, "ObjectSizeLessThan": 9}}, "Expiration": {"Days": 1}}, "InvalidRequest", 400),
    "long name": ({"ID": "i" * 256, "Filter": {}, "Expiration": {"Days": 1}}, "InvalidArgument", 400),
    "markers by tag": ({"Filter": {"Tag": {"Key": "k", "Value": "v"}}, "Expiration": {"ExpiredObjectDeleteMarker": True}}, "InvalidRequest", 400),
    "uploads by tag": ({"Filter": {"Tag": {"Key": "k", "Value": "v"}}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}, "InvalidRequest", 400),
    "control character": ({"Filter": {"Prefix": "a\u007f"}, "Expiration": {"Days": 1}}, "InvalidArgument", 400),
    "transition": ({"Filter": {}, "Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]}, "NotImplemented", 501),
    "both": ({"Filter": {}, "Expiration": {"Days": 1}, "NoncurrentVersionTransitions": [{"NoncurrentDays": 1, "StorageClass": "GLACIER"}]}, "NotImplemented", 501),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_rule_is_refused_and_changes_nothing(s3, bucket, what):
    before = {"ID": "before", "Status": "Disabled", "Filter": {}, "Expiration": {"Days": 9}}
    put(s3, bucket, before)
    rule, code, number = WRONG[what]
    with refused(code, number):
        put(s3, bucket, rule)
    with refused(code, number):
        put(s3, bucket, {"Filter": {}, "Expiration": {"Days": 1}}, rule)
    assert shown(s3, bucket) == [before]


def test_names_of_rules_are_unique_and_their_number_is_limited(s3, bucket):
    rule = {"Filter": {}, "Expiration": {"Days": 1}}
    with refused("InvalidArgument", 400):
        put(s3, bucket, {**rule, "ID": "a"}, {**rule, "ID": "a"})
    with refused("MalformedXML", 400):
        put(s3, bucket, *[{**rule, "Filter": {"Prefix": str(number)}} for number in range(1_001)])
    put(s3, bucket, *[{**rule, "Status": "Disabled", "Filter": {"Prefix": str(number)}} for number in range(1_000)])
    assert len(shown(s3, bucket)) == 1_000


def test_nobody_else_sees_or_changes_rules(s3, alt, bucket):
    put(s3, bucket, {"Status": "Disabled", "Filter": {}, "Expiration": {"Days": 1}})
    for call in (lambda: shown(alt, bucket), lambda: put(alt, bucket, {"Filter": {}, "Expiration": {"Days": 1}}), lambda: alt.delete_bucket_lifecycle(Bucket=bucket)):
        with refused("AccessDenied", 403):
            call()
    assert len(shown(s3, bucket)) == 1


def test_a_policy_may_allow_it(s3, alt, bucket):
    who = alt.list_buckets()["Owner"]["ID"]
    actions = '["s3:PutLifecycleConfiguration", "s3:GetLifecycleConfiguration"]'
    policy = f'{{"Statement": {{"Effect": "Allow", "Principal": {{"CanonicalUser": "{who}"}}, "Action": {actions}, "Resource": "arn:aws:s3:::{bucket}"}}}}'
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    put(alt, bucket, {"Status": "Disabled", "Filter": {}, "Expiration": {"Days": 1}})
    assert len(shown(alt, bucket)) == 1
    alt.delete_bucket_lifecycle(Bucket=bucket)


def test_so_many_versions_are_kept_by_puts_copies_and_multipart_uploads(s3, versioned):
    put(s3, versioned, {"Filter": {"Prefix": "object"}, "NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 2}})
    for number in range(5):
        s3.put_object(Bucket=versioned, Key="object", Body=f"{number}".encode())
        s3.put_object(Bucket=versioned, Key="other", Body=f"{number}".encode())
    assert bodies(s3, versioned) == [b"4", b"3", b"2"]
    s3.copy_object(Bucket=versioned, Key="object", CopySource={"Bucket": versioned, "Key": "other"}, MetadataDirective="REPLACE", Metadata={"n": "5"})
    assert bodies(s3, versioned) == [b"4", b"4", b"3"]
    upload = s3.create_multipart_upload(Bucket=versioned, Key="object")["UploadId"]
    part = s3.upload_part(Bucket=versioned, Key="object", UploadId=upload, PartNumber=1, Body=b"6")
    s3.complete_multipart_upload(Bucket=versioned, Key="object", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    assert bodies(s3, versioned) == [b"6", b"4", b"4"]
    assert len(bodies(s3, versioned, "other")) == 5


def test_a_put_rule_is_carried_out_at_once(s3, versioned):
    for number in range(5):
        for key in ("object", "other"):
            s3.put_object(Bucket=versioned, Key=key, Body=f"{number}".encode())
    put(s3, versioned, {"Filter": {"Prefix": "object"}, "NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 1}})
    until(lambda: len(s3.list_object_versions(Bucket=versioned, Prefix="object")["Versions"]), 2)
    assert bodies(s3, versioned) == [b"4", b"3"]
    assert len(bodies(s3, versioned, "other")) == 5


def test_objects_expire_from_a_date_on(s3, versioned):
    s3.put_object(Bucket=versioned, Key="object", Body=b"body")
    s3.put_object(Bucket=versioned, Key="other", Body=b"body", Tagging="keep=yes")
    put(s3, versioned, {"Filter": {"Prefix": "object"}, "Expiration": {"Date": MIDNIGHT}}, {"Filter": {"Tag": {"Key": "keep", "Value": "no"}}, "Expiration": {"Date": MIDNIGHT}})
    until(lambda: bodies(s3, versioned), [b"marker", b"body"])
    assert bodies(s3, versioned, "other") == [b"body"]
    # Versions aren't a day old, so no other rule of days has an effect.
    s3.put_object(Bucket=versioned, Key="zone", Body=b"body")
    days = {"Filter": {}, "Expiration": {"Days": 1}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}}
    put(s3, versioned, days, {"Filter": {"Prefix": "zone"}, "Expiration": {"Date": MIDNIGHT}})
    # A walk goes by name, so it has passed the others by then.
    until(lambda: bodies(s3, versioned, "zone"), [b"marker", b"body"])
    assert bodies(s3, versioned) == [b"marker", b"body"]


def test_locked_versions_stay(s3, make_bucket):
    bucket = make_bucket(ObjectLockEnabledForBucket=True)
    kept = s3.put_object(Bucket=bucket, Key="object", Body=b"0")["VersionId"]
    s3.put_object_legal_hold(Bucket=bucket, Key="object", VersionId=kept, LegalHold={"Status": "ON"})
    put(s3, bucket, {"Filter": {}, "NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 1}})
    for number in range(1, 4):
        s3.put_object(Bucket=bucket, Key="object", Body=f"{number}".encode())
    assert bodies(s3, bucket) == [b"3", b"2", b"0"]


def test_rules_survive_a_restart_and_are_disabled_by_a_recovery(own: Own):
    with own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="curves")
        s3.put_bucket_versioning(Bucket="curves", VersioningConfiguration={"Status": "Enabled"})
        put(s3, "curves", {"ID": "few", "Filter": {}, "NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 1}})
    with own:
        s3 = connect(own.server, own.account)
        (rule,) = shown(s3, "curves")
        assert rule["Status"] == "Enabled"
        for number in range(4):
            s3.put_object(Bucket="curves", Key="object", Body=f"{number}".encode())
        assert bodies(s3, "curves") == [b"3", b"2"]
    for file in own.archive.glob("service.db*"):
        file.unlink()
    with own:
        assert own.said["recovered"]["buckets_with_disabled_rules"] == 1
        assert "lifecycle rules of 1 bucket are disabled" in own.log.read_text()
        s3 = connect(own.server, own.account)
        (rule,) = shown(s3, "curves")
        assert rule == {"ID": "few", "Filter": {}, "Status": "Disabled", "NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 1}}
        for number in range(4, 7):
            s3.put_object(Bucket="curves", Key="object", Body=f"{number}".encode())
        assert len(bodies(s3, "curves")) == 5
