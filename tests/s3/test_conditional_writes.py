"""Writes under conditions: `If-None-Match: *` makes, `If-Match` replaces, and of many at once one wins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from digests import etag
from wire import refused, status

OTHER = etag(b"another")


def put(s3, bucket: str, body: bytes, **conditions):
    return s3.put_object(Bucket=bucket, Key="object", Body=body, **conditions)


def put_parts(s3, bucket: str, body: bytes, **conditions):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="object")["UploadId"]
    which = {"Bucket": bucket, "Key": "object", "UploadId": upload}
    tag = s3.upload_part(**which, PartNumber=1, Body=body)["ETag"]
    return s3.complete_multipart_upload(**which, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]}, **conditions)


WAYS = pytest.mark.parametrize("write", [put, put_parts], ids=["put", "multipart"])


def content(s3, bucket: str) -> bytes:
    return s3.get_object(Bucket=bucket, Key="object")["Body"].read()


@WAYS
def test_if_none_match_makes_what_is_not_there(s3, bucket, write):
    assert status(write(s3, bucket, b"first", IfNoneMatch="*")) == 200
    assert content(s3, bucket) == b"first"


@WAYS
def test_if_none_match_leaves_what_is_there(s3, bucket, write):
    put(s3, bucket, b"first")
    with refused("PreconditionFailed", 412):
        write(s3, bucket, b"second", IfNoneMatch="*")
    assert content(s3, bucket) == b"first"


@WAYS
def test_if_none_match_makes_again_what_was_deleted(s3, bucket, write):
    put(s3, bucket, b"first")
    s3.delete_object(Bucket=bucket, Key="object")
    write(s3, bucket, b"second", IfNoneMatch="*")
    assert content(s3, bucket) == b"second"


@WAYS
def test_a_delete_marker_counts_as_nothing(s3, versioned, write):
    put(s3, versioned, b"first")
    s3.delete_object(Bucket=versioned, Key="object")
    with refused("NoSuchKey", 404):
        write(s3, versioned, b"second", IfMatch=etag(b"first"))
    write(s3, versioned, b"second", IfNoneMatch="*")
    assert content(s3, versioned) == b"second"


@WAYS
def test_if_none_match_leaves_the_latest_of_several_versions(s3, versioned, write):
    put(s3, versioned, b"first")
    with refused("PreconditionFailed", 412):
        write(s3, versioned, b"second", IfNoneMatch="*")
    assert len(s3.list_object_versions(Bucket=versioned)["Versions"]) == 1


@WAYS
def test_if_none_match_with_a_tag_keeps_what_has_it_and_replaces_all_else(s3, bucket, write):
    write(s3, bucket, b"first", IfNoneMatch=OTHER)
    with refused("PreconditionFailed", 412):
        write(s3, bucket, b"second", IfNoneMatch=s3.head_object(Bucket=bucket, Key="object")["ETag"])
    assert content(s3, bucket) == b"first"
    write(s3, bucket, b"third", IfNoneMatch=OTHER)
    assert content(s3, bucket) == b"third"


@WAYS
def test_if_match_replaces_what_the_client_knows(s3, bucket, write):
    first = put(s3, bucket, b"first")
    write(s3, bucket, b"second", IfMatch=first["ETag"])
    assert content(s3, bucket) == b"second"


@WAYS
def test_if_match_leaves_what_the_client_does_not_know(s3, bucket, write):
    put(s3, bucket, b"first")
    with refused("PreconditionFailed", 412):
        write(s3, bucket, b"second", IfMatch=OTHER)
    assert content(s3, bucket) == b"first"


@WAYS
def test_if_match_makes_nothing(s3, bucket, write):
    with refused("NoSuchKey", 404):
        write(s3, bucket, b"first", IfMatch=OTHER)
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="object")


def test_a_refused_completion_can_be_tried_again(s3, bucket):
    first = put(s3, bucket, b"first")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="object")["UploadId"]
    which = {"Bucket": bucket, "Key": "object", "UploadId": upload}
    tag = s3.upload_part(**which, PartNumber=1, Body=b"second")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    with refused("PreconditionFailed", 412):
        s3.complete_multipart_upload(**which, MultipartUpload=parts, IfNoneMatch="*")
    s3.complete_multipart_upload(**which, MultipartUpload=parts, IfMatch=first["ETag"])
    assert content(s3, bucket) == b"second"


def outcomes(calls) -> list[int]:
    def one(call) -> int:
        try:
            return status(call())
        except ClientError as error:
            return status(error.response)

    with ThreadPoolExecutor(len(calls)) as pool:
        return sorted(pool.map(one, calls))


def test_of_many_that_make_an_object_at_once_one_does(s3, bucket):
    bodies = [f"body {index}".encode() for index in range(12)]
    found = outcomes([lambda body=body: put(s3, bucket, body, IfNoneMatch="*") for body in bodies])
    # 409 ConditionalRequestConflict asks the client to try again.
    assert found.count(200) == 1 and set(found) <= {200, 409, 412}
    assert content(s3, bucket) in bodies


def test_of_many_that_replace_an_object_at_once_one_does(s3, bucket):
    tag = put(s3, bucket, b"first")["ETag"]
    found = outcomes([lambda index=index: put(s3, bucket, f"body {index}".encode(), IfMatch=tag) for index in range(12)])
    assert found.count(200) == 1 and set(found) <= {200, 409, 412}


def test_of_many_counters_none_is_lost(s3, bucket):
    """Compare and swap: each adds one, and tries until it has."""
    put(s3, bucket, b"0")

    def add() -> None:
        while True:
            got = s3.get_object(Bucket=bucket, Key="object")
            try:
                put(s3, bucket, str(int(got["Body"].read()) + 1).encode(), IfMatch=got["ETag"])
                return
            except ClientError as error:
                assert status(error.response) in (409, 412)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(add) for _ in range(12)]:
            future.result()
    assert content(s3, bucket) == b"12"


def test_if_match_deletes_what_the_client_knows(s3, bucket):
    tag = put(s3, bucket, b"first")["ETag"]
    with refused("PreconditionFailed", 412):
        s3.delete_object(Bucket=bucket, Key="object", IfMatch=OTHER)
    assert content(s3, bucket) == b"first"
    assert status(s3.delete_object(Bucket=bucket, Key="object", IfMatch=tag)) == 204
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="object")


def test_a_batch_deletes_what_the_client_knows(s3, bucket):
    tag = put(s3, bucket, b"first")["ETag"]
    s3.put_object(Bucket=bucket, Key="other", Body=b"other")
    wanted = [{"Key": "object", "ETag": tag}, {"Key": "other", "ETag": OTHER}]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted})
    assert [entry["Key"] for entry in answer["Deleted"]] == ["object"]
    assert [(entry["Key"], entry["Code"]) for entry in answer["Errors"]] == [("other", "PreconditionFailed")]


def test_a_copy_makes_what_is_not_there_and_replaces_what_is_known(s3, bucket):
    source = {"Bucket": bucket, "Key": "source"}
    s3.put_object(**source, Body=b"source")
    s3.copy_object(Bucket=bucket, Key="object", CopySource=source, IfNoneMatch="*")
    with refused("PreconditionFailed", 412):
        s3.copy_object(Bucket=bucket, Key="object", CopySource=source, IfNoneMatch="*")
    with refused("PreconditionFailed", 412):
        s3.copy_object(Bucket=bucket, Key="object", CopySource=source, IfMatch=OTHER)
    s3.copy_object(Bucket=bucket, Key="object", CopySource=source, IfMatch=etag(b"source"))


def test_conditions_of_writes_are_lists_of_tags(s3, bucket, wire):
    tag = s3.put_object(Bucket=bucket, Key="object", Body=b"first")["ETag"]
    target = f"/{bucket}/object"
    assert wire.send("PUT", target, {"If-Match": '"other", "more"'}, b"second").code == "PreconditionFailed"
    assert wire.send("PUT", target, {"If-None-Match": f'"other", {tag}'}, b"second").code == "PreconditionFailed"
    assert wire.send("DELETE", target, {"If-Match": '"other", "more"'}).code == "PreconditionFailed"
    assert wire.send("GET", target).body == b"first"
    assert wire.send("PUT", target, {"If-Match": f'"other", {tag}'}, b"second").status == 200
    copy = {"x-amz-copy-source": target, "x-amz-copy-source-if-match": f'{tag}, "other"'}
    assert wire.send("PUT", f"/{bucket}/copy", copy).code == "PreconditionFailed"
    new = s3.head_object(Bucket=bucket, Key="object")["ETag"]
    assert wire.send("PUT", f"/{bucket}/copy", copy | {"x-amz-copy-source-if-match": f'{tag}, {new}'}).status == 200
    assert wire.send("DELETE", target, {"If-Match": f'"other", {new}'}).status == 204
