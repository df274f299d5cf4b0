"""Copies: what goes with the bytes, what is replaced, and from where."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from digests import etag
from wire import refused

BODY = b"the source"
OTHER = etag(b"another")


@pytest.fixture
def source(s3, bucket) -> dict:
    s3.put_object(Bucket=bucket, Key="source", Body=BODY, Metadata={"colour": "blue"}, ContentType="text/plain", Tagging="rank=one")
    return {"Bucket": bucket, "Key": "source"}


def tags(s3, bucket: str, key: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]}


@pytest.mark.parametrize("size", [0, 1, 100_000, 6_000_000])
def test_a_copy_has_the_same_bytes(s3, bucket, size):
    body = os.urandom(size)
    s3.put_object(Bucket=bucket, Key="source", Body=body)
    answer = s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "source"})
    assert answer["CopyObjectResult"]["ETag"] == etag(body)
    assert answer["CopyObjectResult"]["LastModified"]
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == body
    assert s3.get_object(Bucket=bucket, Key="source")["Body"].read() == body


def test_a_copy_takes_metadata_and_tags_along(s3, bucket, source):
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source)
    head = s3.head_object(Bucket=bucket, Key="copy")
    assert (head["Metadata"], head["ContentType"]) == ({"colour": "blue"}, "text/plain")
    assert tags(s3, bucket, "copy") == {"rank": "one"}


def test_a_copy_goes_to_another_bucket(s3, bucket, source, make_bucket):
    other = make_bucket()
    s3.copy_object(Bucket=other, Key="copy", CopySource=source)
    s3.delete_object(**source)
    assert s3.get_object(Bucket=other, Key="copy")["Body"].read() == BODY


def test_a_copy_outlives_its_source_and_the_other_way_round(s3, bucket, source):
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source)
    s3.put_object(**source, Body=b"changed")
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == BODY
    s3.delete_object(Bucket=bucket, Key="copy")
    assert s3.get_object(**source)["Body"].read() == b"changed"


def test_a_copy_replaces_what_was_there(s3, bucket, source):
    s3.put_object(Bucket=bucket, Key="copy", Body=b"old", Metadata={"old": "yes"})
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source)
    got = s3.get_object(Bucket=bucket, Key="copy")
    assert (got["Body"].read(), got["Metadata"]) == (BODY, {"colour": "blue"})


def test_metadata_is_replaced_where_that_is_asked_for(s3, bucket, source):
    s3.copy_object(
        Bucket=bucket, Key="copy", CopySource=source, MetadataDirective="REPLACE", Metadata={"shape": "round"}, ContentType="text/html"
    )
    head = s3.head_object(Bucket=bucket, Key="copy")
    assert (head["Metadata"], head["ContentType"]) == ({"shape": "round"}, "text/html")
    assert tags(s3, bucket, "copy") == {"rank": "one"}


def test_metadata_is_left_out_of_account_where_it_is_copied(s3, bucket, source):
    s3.copy_object(
        Bucket=bucket, Key="copy", CopySource=source, MetadataDirective="COPY", Metadata={"shape": "round"}, ContentType="text/html"
    )
    head = s3.head_object(Bucket=bucket, Key="copy")
    assert (head["Metadata"], head["ContentType"]) == ({"colour": "blue"}, "text/plain")


def test_tags_are_replaced_where_that_is_asked_for(s3, bucket, source):
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, TaggingDirective="REPLACE", Tagging="rank=two&new=yes")
    assert tags(s3, bucket, "copy") == {"rank": "two", "new": "yes"}
    s3.copy_object(Bucket=bucket, Key="bare", CopySource=source, TaggingDirective="REPLACE")
    assert tags(s3, bucket, "bare") == {}


@pytest.mark.parametrize("name", ["MetadataDirective", "TaggingDirective"])
def test_a_directive_that_is_none_is_refused(s3, bucket, source, name):
    with refused("InvalidArgument", 400):
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, **{name: "MERGE"})


def test_a_copy_onto_itself_that_changes_nothing_is_refused(s3, bucket, source):
    with refused("InvalidRequest", 400):
        s3.copy_object(**source, CopySource=source)


def test_a_copy_onto_itself_changes_metadata(s3, bucket, source):
    s3.copy_object(**source, CopySource=source, MetadataDirective="REPLACE", Metadata={"shape": "round"})
    got = s3.get_object(**source)
    assert (got["Body"].read(), got["Metadata"]) == (BODY, {"shape": "round"})


@pytest.mark.parametrize("name", ["key", "bucket"])
def test_a_source_that_is_not_there_is_named_as_the_reason(s3, bucket, bucket_name, name):
    missing = {"Bucket": bucket, "Key": "nothing"} if name == "key" else {"Bucket": bucket_name, "Key": "nothing"}
    with refused("NoSuchKey" if name == "key" else "NoSuchBucket", 404):
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=missing)
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="copy")


def test_a_bucket_to_copy_to_that_is_not_there_is_named_as_the_reason(s3, source, bucket_name):
    with refused("NoSuchBucket", 404):
        s3.copy_object(Bucket=bucket_name, Key="copy", CopySource=source)


@pytest.mark.parametrize("text", ["/", "bucket-alone", "/bucket-alone/"])
def test_a_source_that_is_none_is_refused(wire, bucket, text):
    reply = wire.send("PUT", f"/{bucket}/copy", {"x-amz-copy-source": text})
    assert reply.status == 400 and reply.code in {"InvalidArgument", "InvalidRequest"}


def test_a_source_may_begin_with_a_slash_or_not(s3, wire, bucket, source):
    for index, slash in enumerate(["", "/"]):
        assert wire.send("PUT", f"/{bucket}/copy{index}", {"x-amz-copy-source": f"{slash}{bucket}/source"}).status == 200
        assert s3.get_object(Bucket=bucket, Key=f"copy{index}")["Body"].read() == BODY


CONDITIONS = {
    "CopySourceIfMatch same": ({"CopySourceIfMatch": etag(BODY)}, {}, True),
    "CopySourceIfMatch other": ({"CopySourceIfMatch": OTHER}, {}, False),
    "CopySourceIfNoneMatch other": ({"CopySourceIfNoneMatch": OTHER}, {}, True),
    "CopySourceIfNoneMatch same": ({"CopySourceIfNoneMatch": etag(BODY)}, {}, False),
    "CopySourceIfModifiedSince before": ({}, {"CopySourceIfModifiedSince": -3600}, True),
    "CopySourceIfModifiedSince same": ({}, {"CopySourceIfModifiedSince": 0}, False),
    "CopySourceIfUnmodifiedSince same": ({}, {"CopySourceIfUnmodifiedSince": 0}, True),
    "CopySourceIfUnmodifiedSince before": ({}, {"CopySourceIfUnmodifiedSince": -3600}, False),
    "tag holds, unmodified doesn't": ({"CopySourceIfMatch": etag(BODY)}, {"CopySourceIfUnmodifiedSince": -3600}, True),
    "tag is known, though modified": ({"CopySourceIfNoneMatch": etag(BODY)}, {"CopySourceIfModifiedSince": -3600}, False),
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_a_copy_is_made_under_conditions_on_its_source(s3, bucket, source, case):
    given, since, made = CONDITIONS[case]
    modified = s3.head_object(**source)["LastModified"]
    conditions = given | {name: modified + timedelta(seconds=seconds) for name, seconds in since.items()}
    if made:
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, **conditions)
        assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == BODY
        return
    with refused("PreconditionFailed", 412):
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, **conditions)
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="copy")


def test_a_copy_is_made_of_an_old_version(s3, versioned):
    old = s3.put_object(Bucket=versioned, Key="source", Body=b"old")["VersionId"]
    s3.put_object(Bucket=versioned, Key="source", Body=b"new")
    answer = s3.copy_object(Bucket=versioned, Key="copy", CopySource={"Bucket": versioned, "Key": "source", "VersionId": old})
    assert answer["CopySourceVersionId"] == old
    assert answer["VersionId"] not in (old, None)
    assert s3.get_object(Bucket=versioned, Key="copy")["Body"].read() == b"old"


def test_an_old_version_is_copied_onto_its_own_key(s3, versioned):
    """The way to bring an old state back."""
    old = s3.put_object(Bucket=versioned, Key="object", Body=b"old")["VersionId"]
    s3.put_object(Bucket=versioned, Key="object", Body=b"new")
    s3.copy_object(Bucket=versioned, Key="object", CopySource={"Bucket": versioned, "Key": "object", "VersionId": old})
    assert s3.get_object(Bucket=versioned, Key="object")["Body"].read() == b"old"
    assert len(s3.list_object_versions(Bucket=versioned)["Versions"]) == 3


def test_a_version_that_is_not_there_is_named_as_the_reason(s3, versioned):
    other = s3.put_object(Bucket=versioned, Key="other", Body=b"other")["VersionId"]
    s3.put_object(Bucket=versioned, Key="source", Body=b"source")
    with refused("NoSuchVersion", 404):
        s3.copy_object(Bucket=versioned, Key="copy", CopySource={"Bucket": versioned, "Key": "source", "VersionId": other})


def test_a_delete_marker_is_not_copied(s3, versioned):
    s3.put_object(Bucket=versioned, Key="source", Body=b"source")
    marker = s3.delete_object(Bucket=versioned, Key="source")["VersionId"]
    with refused("NoSuchKey", 404):
        s3.copy_object(Bucket=versioned, Key="copy", CopySource={"Bucket": versioned, "Key": "source"})
    with refused("InvalidRequest", 400):
        s3.copy_object(Bucket=versioned, Key="copy", CopySource={"Bucket": versioned, "Key": "source", "VersionId": marker})


def test_nobody_copies_what_he_may_not_read_or_to_where_he_may_not_write(s3, alt, bucket, source, make_bucket):
    theirs = make_bucket(alt)
    with refused("AccessDenied", 403):
        alt.copy_object(Bucket=theirs, Key="copy", CopySource=source)
    alt.put_object(Bucket=theirs, Key="theirs", Body=b"theirs")
    with refused("AccessDenied", 403):
        alt.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": theirs, "Key": "theirs"})


def test_a_copy_from_a_bucket_of_another_owner_than_expected_is_refused(s3, bucket, source):
    owner = s3.list_buckets()["Owner"]["ID"]
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, ExpectedSourceBucketOwner=owner)
    which = {"Bucket": bucket, "Key": "parts"}
    upload = s3.create_multipart_upload(**which)["UploadId"]
    part = {**which, "UploadId": upload, "PartNumber": 1, "CopySource": source}
    s3.upload_part_copy(**part, ExpectedSourceBucketOwner=owner)
    with refused("AccessDenied", 403):
        s3.copy_object(Bucket=bucket, Key="other", CopySource=source, ExpectedSourceBucketOwner="0" * 64)
    with refused("AccessDenied", 403):
        s3.upload_part_copy(**part, ExpectedSourceBucketOwner="0" * 64)
    s3.abort_multipart_upload(**which, UploadId=upload)


def test_a_copy_of_a_multipart_object_is_one_piece(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="source", Metadata={"colour": "blue"})["UploadId"]
    which = {"Bucket": bucket, "Key": "source", "UploadId": upload}
    tag = s3.upload_part(**which, PartNumber=1, Body=BODY)["ETag"]
    s3.complete_multipart_upload(**which, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
    answer = s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "source"})
    assert answer["CopyObjectResult"]["ETag"] == etag(BODY)
    head = s3.head_object(Bucket=bucket, Key="copy")
    assert (head["ETag"], head["Metadata"]) == (etag(BODY), {"colour": "blue"})
