"""Storage classes and restores: what is archived is read after RestoreObject, and what is not says so.

The classes of Fulgurite: STANDARD and GLACIER_IR are read at once, GLACIER and DEEP_ARCHIVE after a restore.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest
from botocore.exceptions import ClientError

from digests import content_md5, etag
from serving import START_S, Serving, connect
from wire import headers, refused, status

BODY = b"archived" * 1000
ARCHIVED = pytest.mark.parametrize("storage_class", ["GLACIER", "DEEP_ARCHIVE"])
# Platters on disk are written and read within seconds.
RESTORE_S = 120


@pytest.fixture
def archived(s3, bucket) -> dict:
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, StorageClass="GLACIER", Metadata={"colour": "blue"})
    return {"Bucket": bucket, "Key": "object"}


def restore(s3, which: dict, days: int | None = 1, tier: str | None = "Expedited", **settings):
    request = ({"Days": days} if days is not None else {}) | ({"GlacierJobParameters": {"Tier": tier}} if tier else {})
    return s3.restore_object(**which, RestoreRequest=request, **settings)


def state(s3, which: dict) -> tuple[bool, datetime | None] | None:
    """Whether a restore is under way, and when its copy expires; nothing if none was asked for."""
    said = s3.head_object(**which).get("Restore")
    if said is None:
        return None
    ongoing = re.fullmatch(r'ongoing-request="(true|false)"(?:, expiry-date="([^"]+)")?', said)
    assert ongoing, said
    return ongoing[1] == "true", parsedate_to_datetime(ongoing[2]) if ongoing[2] else None


def wait(s3, which: dict) -> datetime:
    """Until the restored copy is there; says when it expires."""
    end = time.monotonic() + RESTORE_S
    while time.monotonic() < end:
        ongoing, expires = state(s3, which)
        if not ongoing:
            assert expires, "a restored copy has an expiry date"
            return expires
        assert expires is None
        time.sleep(0.1)
    pytest.fail(f"no restored copy within {RESTORE_S} s")


@pytest.mark.parametrize("storage_class", ["STANDARD", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"])
def test_the_class_is_told_by_heads_and_lists(s3, bucket, storage_class):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, StorageClass=storage_class)
    head = s3.head_object(Bucket=bucket, Key="object")
    # AWS leaves the header out for STANDARD.
    assert head.get("StorageClass", "STANDARD") == storage_class
    assert (head["ContentLength"], head["ETag"]) == (len(BODY), etag(BODY))
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["StorageClass"] == storage_class
    assert s3.list_objects(Bucket=bucket)["Contents"][0]["StorageClass"] == storage_class
    assert s3.list_object_versions(Bucket=bucket)["Versions"][0]["StorageClass"] == storage_class
    attributes = s3.get_object_attributes(Bucket=bucket, Key="object", ObjectAttributes=["StorageClass"])
    assert attributes["StorageClass"] == storage_class


@pytest.mark.parametrize("storage_class", ["STANDARD", "GLACIER_IR"])
def test_what_needs_no_restore_is_read_at_once(s3, bucket, storage_class):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, StorageClass=storage_class)
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == BODY


def test_a_class_that_is_none_is_refused(s3, bucket):
    with refused("InvalidStorageClass", 400):
        s3.put_object(Bucket=bucket, Key="object", Body=BODY, StorageClass="PERMAFROST")
    with refused("InvalidStorageClass", 400):
        s3.create_multipart_upload(Bucket=bucket, Key="object", StorageClass="PERMAFROST")
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="object")


@ARCHIVED
def test_what_is_archived_is_not_read(s3, bucket, storage_class):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, StorageClass=storage_class)
    for asked in ({}, {"Range": "bytes=0-9"}, {"PartNumber": 1}):
        with refused("InvalidObjectState", 403) as caught:
            s3.get_object(Bucket=bucket, Key="object", **asked)
        assert caught.value.response["Error"]["StorageClass"] == storage_class
    assert state(s3, {"Bucket": bucket, "Key": "object"}) is None


def test_an_empty_object_is_archived_like_any_other(s3, bucket):
    which = {"Bucket": bucket, "Key": "empty"}
    s3.put_object(**which, Body=b"", StorageClass="GLACIER")
    with refused("InvalidObjectState", 403):
        s3.get_object(**which)
    restore(s3, which)
    wait(s3, which)
    assert s3.get_object(**which)["Body"].read() == b""


def test_what_does_not_read_works_on_what_is_archived(s3, bucket, archived):
    assert s3.head_object(**archived)["Metadata"] == {"colour": "blue"}
    s3.put_object_tagging(**archived, Tagging={"TagSet": [{"Key": "rank", "Value": "one"}]})
    assert s3.get_object_tagging(**archived)["TagSet"] == [{"Key": "rank", "Value": "one"}]
    assert s3.get_object_acl(**archived)["Owner"]["ID"]


def test_what_is_archived_can_be_replaced_and_deleted(s3, bucket, archived):
    s3.put_object(**archived, Body=b"new")
    assert s3.get_object(**archived)["Body"].read() == b"new"
    s3.put_object(**archived, Body=BODY, StorageClass="DEEP_ARCHIVE")
    assert status(s3.delete_object(**archived)) == 204
    with refused("404", 404):
        s3.head_object(**archived)


@ARCHIVED
@pytest.mark.parametrize("tier", ["Standard", "Bulk", None], ids=str)
def test_a_restored_copy_is_read_until_it_expires(s3, bucket, storage_class, tier):
    which = {"Bucket": bucket, "Key": "object"}
    s3.put_object(**which, Body=BODY, StorageClass=storage_class)
    before = datetime.now(UTC)
    assert status(restore(s3, which, days=2, tier=tier)) == 202
    expires = wait(s3, which)
    # AWS rounds up to the next midnight.
    assert timedelta(days=2) - timedelta(seconds=2) <= expires - before <= timedelta(days=3, minutes=5)
    got = s3.get_object(**which)
    assert got["Body"].read() == BODY
    assert 'ongoing-request="false"' in got["Restore"] and got["StorageClass"] == storage_class
    assert s3.get_object(**which, Range="bytes=8-15")["Body"].read() == b"archived"


def test_an_expedited_restore_comes_back_too(s3, archived):
    assert status(restore(s3, archived, tier="Expedited")) == 202
    wait(s3, archived)
    assert s3.get_object(**archived)["Body"].read() == BODY


def test_a_restored_object_stays_in_its_class(s3, bucket, archived):
    restore(s3, archived)
    wait(s3, archived)
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["StorageClass"] == "GLACIER"
    assert s3.head_object(**archived)["StorageClass"] == "GLACIER"


def test_a_list_tells_the_state_of_restores_to_who_asks(s3, bucket, archived):
    s3.put_object(Bucket=bucket, Key="other", Body=BODY, StorageClass="GLACIER")
    restore(s3, archived)
    expires = wait(s3, archived)
    listing = s3.list_objects_v2(Bucket=bucket, OptionalObjectAttributes=["RestoreStatus"])
    found = {entry["Key"]: entry.get("RestoreStatus") for entry in listing["Contents"]}
    assert found["object"]["IsRestoreInProgress"] is False
    assert found["object"]["RestoreExpiryDate"].replace(microsecond=0) == expires
    assert found["other"] is None
    assert "RestoreStatus" not in s3.list_objects_v2(Bucket=bucket)["Contents"][0]


def test_a_restore_of_what_is_restored_changes_its_expiry(s3, archived):
    restore(s3, archived, days=1)
    first = wait(s3, archived)
    assert status(restore(s3, archived, days=5)) == 200
    second = wait(s3, archived)
    assert timedelta(days=3) <= second - first <= timedelta(days=5)
    assert s3.get_object(**archived)["Body"].read() == BODY


def test_restores_asked_for_at_once_are_one(s3, archived):
    def ask(_) -> tuple[int, str | None]:
        try:
            return status(restore(s3, archived)), None
        except ClientError as error:
            return status(error.response), error.response["Error"]["Code"]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert (202, None) in answers
    assert set(answers) <= {(202, None), (200, None), (409, "RestoreAlreadyInProgress")}
    wait(s3, archived)
    assert s3.get_object(**archived)["Body"].read() == BODY


def test_many_restores_at_once_all_end(s3, bucket):
    objects = [{"Bucket": bucket, "Key": f"object {index}"} for index in range(24)]
    for index, which in enumerate(objects):
        s3.put_object(**which, Body=f"body {index}".encode(), StorageClass=["GLACIER", "DEEP_ARCHIVE"][index % 2])
    with ThreadPoolExecutor(8) as pool:
        assert [status(answer) for answer in pool.map(lambda which: restore(s3, which, tier="Standard"), objects)] == [202] * 24
    for index, which in enumerate(objects):
        wait(s3, which)
        assert s3.get_object(**which)["Body"].read() == f"body {index}".encode()


@pytest.mark.parametrize("storage_class", ["STANDARD", "GLACIER_IR"])
def test_what_is_not_archived_is_not_restored(s3, bucket, storage_class):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, StorageClass=storage_class)
    with refused("InvalidObjectState", 403):
        restore(s3, {"Bucket": bucket, "Key": "object"})


def test_what_is_not_there_is_not_restored(s3, bucket, bucket_name):
    with refused("NoSuchKey", 404):
        restore(s3, {"Bucket": bucket, "Key": "nothing"})
    with refused("NoSuchBucket", 404):
        restore(s3, {"Bucket": bucket_name, "Key": "nothing"})


@pytest.mark.parametrize("days", [0, -1, None], ids=str)
def test_a_number_of_days_that_is_none_is_refused(s3, archived, days):
    with refused({"InvalidArgument", "MalformedXML"}, 400):
        restore(s3, archived, days=days)
    assert state(s3, archived) is None


def test_a_tier_that_is_none_is_refused(s3, archived):
    with refused({"MalformedXML", "InvalidArgument"}, 400):
        restore(s3, archived, tier="Teleport")
    assert state(s3, archived) is None


@pytest.mark.parametrize(
    "body", [b"", b"soon please", b"<RestoreRequest>", b"<RestoreRequest><Days>one</Days></RestoreRequest>", b"<Restore/>"]
)
def test_a_restore_that_is_no_xml_is_refused(wire, s3, archived, body):
    reply = wire.send("POST", f"/{archived['Bucket']}/object?restore", {"Content-MD5": content_md5(body)}, body)
    assert reply.status == 400 and reply.code in {"MalformedXML", "InvalidArgument", "MissingRequestBodyError"}
    assert state(s3, archived) is None


def test_a_version_is_restored_by_its_number(s3, versioned):
    which = {"Bucket": versioned, "Key": "object"}
    old = which | {"VersionId": s3.put_object(**which, Body=b"old", StorageClass="GLACIER")["VersionId"]}
    new = which | {"VersionId": s3.put_object(**which, Body=b"new", StorageClass="GLACIER")["VersionId"]}
    restore(s3, old)
    wait(s3, old)
    assert s3.get_object(**old)["Body"].read() == b"old"
    with refused("InvalidObjectState", 403):
        s3.get_object(**new)
    assert state(s3, new) is None


def test_a_delete_marker_is_not_restored(s3, versioned):
    which = {"Bucket": versioned, "Key": "object"}
    s3.put_object(**which, Body=b"body", StorageClass="GLACIER")
    marker = s3.delete_object(**which)["VersionId"]
    with refused("MethodNotAllowed", 405):
        restore(s3, which | {"VersionId": marker})
    with refused("NoSuchKey", 404):
        restore(s3, which)


def test_nobody_else_restores(alt, s3, archived):
    with refused("AccessDenied", 403):
        restore(alt, archived)
    assert state(s3, archived) is None


def test_what_is_archived_is_not_copied_before_its_restore(s3, bucket, archived):
    with refused({"InvalidObjectState", "ObjectNotInActiveTierError"}, 403):
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=archived)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="copy")["UploadId"]
    with refused({"InvalidObjectState", "ObjectNotInActiveTierError"}, 403):
        s3.upload_part_copy(Bucket=bucket, Key="copy", UploadId=upload, PartNumber=1, CopySource=archived)
    restore(s3, archived)
    wait(s3, archived)
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=archived)
    head = s3.head_object(Bucket=bucket, Key="copy")
    # The class of a copy is that which is asked for, and none was.
    assert head.get("StorageClass", "STANDARD") == "STANDARD" and "Restore" not in head
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == BODY


def test_a_copy_onto_itself_changes_the_class(s3, bucket):
    which = {"Bucket": bucket, "Key": "object"}
    s3.put_object(**which, Body=BODY, Metadata={"colour": "blue"})
    s3.copy_object(**which, CopySource=which, StorageClass="GLACIER")
    head = s3.head_object(**which)
    assert (head["StorageClass"], head["Metadata"], head["ETag"]) == ("GLACIER", {"colour": "blue"}, etag(BODY))
    with refused("InvalidObjectState", 403):
        s3.get_object(**which)


def test_an_upload_in_parts_has_the_class_it_was_begun_with(s3, bucket):
    which = {"Bucket": bucket, "Key": "object"}
    upload = which | {"UploadId": s3.create_multipart_upload(**which, StorageClass="DEEP_ARCHIVE")["UploadId"]}
    assert s3.list_multipart_uploads(Bucket=bucket)["Uploads"][0]["StorageClass"] == "DEEP_ARCHIVE"
    parts = [bytes(5 * 2**20), BODY]
    tags = [s3.upload_part(**upload, PartNumber=number, Body=part)["ETag"] for number, part in enumerate(parts, 1)]
    listed = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": listed})
    assert s3.head_object(**which)["StorageClass"] == "DEEP_ARCHIVE"
    restore(s3, which, tier="Standard")
    wait(s3, which)
    assert s3.get_object(**which)["Body"].read() == b"".join(parts)
    assert s3.get_object(**which, PartNumber=2)["Body"].read() == BODY


def test_a_head_of_what_is_archived_says_nothing_of_a_restore_nobody_asked_for(s3, archived):
    answer = headers(s3.head_object(**archived))
    assert answer["x-amz-storage-class"] == "GLACIER" and "x-amz-restore" not in answer


def accounts(serving: Serving, *arguments: str) -> list[dict]:
    done = subprocess.run(serving.command("accounts", *arguments), capture_output=True, check=True, timeout=START_S)
    return json.loads(done.stdout) if done.stdout else []


def archive(client, bucket: str, count: int) -> list[dict]:
    client.create_bucket(Bucket=bucket)
    objects = [{"Bucket": bucket, "Key": f"object {index}"} for index in range(count)]
    for which in objects:
        client.put_object(**which, Body=BODY, StorageClass="GLACIER")
    return objects


def test_an_account_beyond_its_quota_is_told_to_come_back_and_others_are_not(running):
    main, second = connect(running.server, running.account), connect(running.server, running.add_account("second"))
    ours, theirs = archive(main, "ours", 2), archive(second, "theirs", 2)
    for quota, which in ((("--open", "0"), "open at once"), (("--gib-a-day", "0"), "GiB restored a day")):
        accounts(running, "quota", "second", *quota)
        with refused("SlowDown", 503) as caught:
            restore(second, theirs[0])
        error = caught.value.response
        assert "second" in error["Error"]["Message"] and which in error["Error"]["Message"]
        assert 0 < int(headers(error)["retry-after"]) <= 86_400
        assert state(second, theirs[0]) is None
        assert status(restore(main, ours[0], tier="Bulk")) in (200, 202)
    accounts(running, "quota", "second", "--as-settings")
    restore(second, theirs[0])
    wait(second, theirs[0])


def test_what_is_restored_already_does_not_count_again(running):
    client = connect(running.server, running.account)
    first, other = archive(client, "ours", 2)
    restore(client, first)
    expires = wait(client, first)
    accounts(running, "quota", "main", "--open", "0", "--gib-a-day", "0")
    assert status(restore(client, first, days=30)) == 200
    assert wait(client, first) - expires >= timedelta(days=29)
    with refused("SlowDown", 503):
        restore(client, other)


def test_quotas_are_listed_with_their_accounts_and_named_in_the_settings(running):
    running.add_account("second")
    accounts(running, "quota", "second", "--open", "5", "--gib-a-day", "10")
    listed = {account["account"]: account["quota"] for account in accounts(running, "list")}
    assert listed == {"main": {"open": None, "gib_a_day": None}, "second": {"open": 5, "gib_a_day": 10}}
    accounts(running, "quota", "second", "--gib-a-day", "7")
    assert {account["account"]: account["quota"] for account in accounts(running, "list")}["second"] == {"open": None, "gib_a_day": 7}
    for arguments in (["nobody", "--open", "1"], ["second"], ["second", "--open", "1", "--as-settings"]):
        assert subprocess.run(running.command("accounts", "quota", *arguments), capture_output=True, timeout=START_S).returncode != 0
    running.stop()
    settings = running.archive / "service.toml"
    text = settings.read_text()
    assert "open_per_account = 10000" in text
    settings.write_text(text.replace("open_per_account = 10000", "open_per_account = 0"))
    running.start()
    client = connect(running.server, running.account)
    [which] = archive(client, "ours", 1)
    with refused("SlowDown", 503):
        restore(client, which)
