"""Multipart uploads: begun, filled, completed or given up."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from digests import content_md5, etag, multipart_etag
from wire import refused, status

PART = 5 * 2**20


class Upload:
    """One upload, and what its parts were answered with."""

    def __init__(self, s3, bucket: str, key: str = "object", **settings):
        self.s3, self.done = s3, {}
        self.which = {"Bucket": bucket, "Key": key}
        self.which["UploadId"] = s3.create_multipart_upload(**self.which, **settings)["UploadId"]

    def put(self, number: int, body: bytes, **settings) -> str:
        self.done[number] = self.s3.upload_part(**self.which, PartNumber=number, Body=body, **settings)["ETag"]
        return self.done[number]

    def complete(self, parts: list[tuple[int, str]] | None = None, **settings):
        parts = sorted(self.done.items()) if parts is None else parts
        listed = [{"PartNumber": number, "ETag": tag} for number, tag in parts]
        return self.s3.complete_multipart_upload(**self.which, MultipartUpload={"Parts": listed}, **settings)

    def abort(self):
        return self.s3.abort_multipart_upload(**self.which)


@pytest.fixture
def upload(s3, bucket) -> Upload:
    return Upload(s3, bucket)


def content(s3, bucket: str, key: str = "object") -> bytes:
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()


def test_parts_become_one_object(s3, bucket, upload):
    parts = [os.urandom(PART), os.urandom(PART + 1), os.urandom(7)]
    for number, part in enumerate(parts, 1):
        assert upload.put(number, part) == etag(part)
    answer = upload.complete()
    assert answer["ETag"] == multipart_etag(parts)
    assert (answer["Bucket"], answer["Key"]) == (bucket, "object") and answer["Location"]
    assert content(s3, bucket) == b"".join(parts)
    head = s3.head_object(Bucket=bucket, Key="object")
    assert (head["ETag"], head["ContentLength"]) == (multipart_etag(parts), sum(map(len, parts)))


def test_a_single_part_may_be_of_any_size(s3, bucket):
    for body in (b"", b"x", os.urandom(PART)):
        upload = Upload(s3, bucket)
        upload.put(1, body)
        assert upload.complete()["ETag"] == multipart_etag([body])
        assert content(s3, bucket) == body


def test_parts_come_in_any_order_and_with_gaps_in_their_numbers(s3, bucket, upload):
    parts = {10_000: b"last", 1: os.urandom(PART), 77: os.urandom(PART)}
    for number, part in parts.items():
        upload.put(number, part)
    upload.complete()
    assert content(s3, bucket) == parts[1] + parts[77] + parts[10_000]


def test_parts_come_at_once(s3, bucket, upload):
    parts = [os.urandom(PART) for _ in range(6)] + [b"end"]
    with ThreadPoolExecutor(7) as pool:
        list(pool.map(lambda item: upload.put(*item), enumerate(parts, 1)))
    assert upload.complete()["ETag"] == multipart_etag(parts)
    assert content(s3, bucket) == b"".join(parts)


def test_a_part_put_again_replaces_the_first(s3, bucket, upload):
    upload.put(1, os.urandom(PART))
    second = upload.put(1, b"second")
    assert second == etag(b"second")
    upload.complete()
    assert content(s3, bucket) == b"second"


def test_the_etag_of_a_part_that_was_replaced_is_no_part(s3, bucket, upload):
    first = upload.put(1, b"first")
    upload.put(1, b"second")
    with refused("InvalidPart", 400):
        upload.complete([(1, first)])


def test_parts_that_are_not_named_are_left_out(s3, bucket, upload):
    kept = upload.put(1, b"kept")
    upload.put(2, b"dropped")
    upload.complete([(1, kept)])
    assert content(s3, bucket) == b"kept"
    with refused("NoSuchUpload", 404):
        s3.list_parts(**upload.which)


def test_nothing_is_seen_before_the_completion(s3, bucket, upload):
    upload.put(1, b"body")
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="object")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    upload.complete()
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1


def test_an_object_stays_until_the_upload_over_it_is_completed(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"old")
    upload = Upload(s3, bucket)
    upload.put(1, b"new")
    assert content(s3, bucket) == b"old"
    upload.complete()
    assert content(s3, bucket) == b"new"


def test_what_was_said_at_the_beginning_is_kept(s3, bucket):
    upload = Upload(s3, bucket, Metadata={"colour": "blue"}, ContentType="text/plain", CacheControl="no-cache", Tagging="rank=one&b=2")
    upload.put(1, b"body")
    upload.complete()
    head = s3.head_object(Bucket=bucket, Key="object")
    assert (head["Metadata"], head["ContentType"], head["CacheControl"]) == ({"colour": "blue"}, "text/plain", "no-cache")
    tags = s3.get_object_tagging(Bucket=bucket, Key="object")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"rank": "one", "b": "2"}


def test_a_part_too_small_to_be_in_the_middle_is_refused(s3, bucket, upload):
    upload.put(1, os.urandom(PART - 1))
    upload.put(2, b"last")
    with refused("EntityTooSmall", 400):
        upload.complete()
    # The upload is still there, and can be mended.
    upload.put(1, bytes(PART))
    upload.complete()
    assert content(s3, bucket) == bytes(PART) + b"last"


def test_a_wrong_etag_is_refused(s3, bucket, upload):
    upload.put(1, b"body")
    with refused("InvalidPart", 400):
        upload.complete([(1, etag(b"another"))])
    upload.complete()


def test_a_part_that_was_not_uploaded_is_refused(s3, bucket, upload):
    tag = upload.put(1, bytes(PART))
    with refused("InvalidPart", 400):
        upload.complete([(1, tag), (2, tag)])


def test_parts_out_of_order_are_refused(s3, bucket, upload):
    one, two = upload.put(1, bytes(PART)), upload.put(2, bytes(PART))
    with refused("InvalidPartOrder", 400):
        upload.complete([(2, two), (1, one)])


def test_a_part_named_twice_is_refused(s3, bucket, upload):
    tag = upload.put(1, bytes(PART))
    with refused("InvalidPartOrder", 400):
        upload.complete([(1, tag), (1, tag)])


def test_a_completion_without_parts_is_refused(s3, bucket, upload):
    upload.put(1, b"body")
    with refused("MalformedXML", 400):
        upload.complete([])
    with refused("MalformedXML", 400):
        s3.complete_multipart_upload(**upload.which)


def test_a_completion_that_is_no_xml_is_refused(wire, upload):
    upload.put(1, b"body")
    target = f"/{upload.which['Bucket']}/object?uploadId={upload.which['UploadId']}"
    for body in (
        b"parts please",
        b"<CompleteMultipartUpload><Part>",
        b"<CompleteMultipartUpload><Part><PartNumber>one</PartNumber></Part></CompleteMultipartUpload>",
    ):
        reply = wire.send("POST", target, {}, body)
        assert (reply.status, reply.code) == (400, "MalformedXML")


def test_etags_are_taken_with_and_without_quotes(s3, bucket, upload):
    one, two = upload.put(1, bytes(PART)), upload.put(2, b"end")
    upload.complete([(1, one.strip('"')), (2, two)])
    assert content(s3, bucket) == bytes(PART) + b"end"


def test_a_second_completion_changes_nothing(s3, bucket, upload):
    """The answer to the first may have been lost on its way; AWS answers a repetition alike for a while."""
    upload.put(1, b"body")
    first = upload.complete()
    try:
        assert upload.complete()["ETag"] == first["ETag"]
    except ClientError as error:
        assert (error.response["Error"]["Code"], status(error.response)) == ("NoSuchUpload", 404)
    assert content(s3, bucket) == b"body"


def test_a_second_completion_with_other_parts_is_refused(s3, bucket, upload):
    upload.put(1, os.urandom(PART))
    upload.put(2, b"last")
    upload.complete()
    (_, first), (_, last) = sorted(upload.done.items())
    for parts in ([(1, etag(b"other"))], [(1, first)], [(1, last), (2, first)], [(1, first), (2, last), (3, last)], [(1, "none")]):
        with refused("NoSuchUpload", 404):
            upload.complete(parts)


def test_an_upload_that_was_given_up_is_gone(s3, bucket, upload):
    upload.put(1, b"body")
    assert status(upload.abort()) == 204
    with refused("NoSuchUpload", 404):
        upload.put(2, b"more")
    with refused("NoSuchUpload", 404):
        upload.complete([(1, etag(b"body"))])
    with refused("NoSuchUpload", 404):
        s3.list_parts(**upload.which)
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="object")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_giving_up_leaves_the_object_that_was_there(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"old")
    upload = Upload(s3, bucket)
    upload.put(1, b"new")
    upload.abort()
    assert content(s3, bucket) == b"old"


@pytest.mark.parametrize("number", [0, -1, 10_001, 2**31])
def test_a_part_number_out_of_its_range_is_refused(s3, upload, number):
    with refused("InvalidArgument", 400):
        upload.put(number, b"body")


def test_a_part_number_that_is_none_is_refused(wire, upload):
    reply = wire.send("PUT", f"/{upload.which['Bucket']}/object?partNumber=one&uploadId={upload.which['UploadId']}", {}, b"body")
    assert (reply.status, reply.code) == (400, "InvalidArgument")


def test_a_part_with_a_wrong_digest_is_refused(s3, upload):
    with refused("BadDigest", 400):
        upload.put(1, b"body", ContentMD5=content_md5(b"another"))
    assert "Parts" not in s3.list_parts(**upload.which)
    upload.put(1, b"body", ContentMD5=content_md5(b"body"))


@pytest.mark.parametrize("call", ["upload_part", "complete", "abort", "list_parts"])
def test_an_upload_nobody_began_is_named_as_the_reason(s3, upload, call):
    other = upload.which | {"UploadId": "no-upload-looks-like-this"}
    calls = {
        "upload_part": lambda: s3.upload_part(**other, PartNumber=1, Body=b"body"),
        "complete": lambda: s3.complete_multipart_upload(**other, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag(b"")}]}),
        "abort": lambda: s3.abort_multipart_upload(**other),
        "list_parts": lambda: s3.list_parts(**other),
    }
    with refused("NoSuchUpload", 404):
        calls[call]()


def test_an_upload_of_another_key_is_none_of_this_one(s3, upload):
    upload.put(1, b"body")
    other = upload.which | {"Key": "other"}
    with refused("NoSuchUpload", 404):
        s3.upload_part(**other, PartNumber=1, Body=b"body")
    with refused("NoSuchUpload", 404):
        s3.complete_multipart_upload(**other, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag(b"body")}]})


def test_an_upload_of_somebody_else_is_out_of_reach(alt, upload):
    with refused("AccessDenied", 403):
        alt.upload_part(**upload.which, PartNumber=1, Body=b"theirs")
    with refused("AccessDenied", 403):
        alt.list_parts(**upload.which)
    with refused("AccessDenied", 403):
        alt.abort_multipart_upload(**upload.which)


def test_uploads_to_one_key_know_nothing_of_each_other(s3, bucket):
    one, two = Upload(s3, bucket), Upload(s3, bucket)
    assert one.which["UploadId"] != two.which["UploadId"]
    one.put(1, b"one")
    two.put(1, b"two")
    one.complete()
    assert content(s3, bucket) == b"one"
    two.complete()
    assert content(s3, bucket) == b"two"


def test_every_completion_in_a_versioned_bucket_makes_a_version(s3, versioned):
    versions = []
    for body in (b"one", b"two"):
        upload = Upload(s3, versioned)
        upload.put(1, body)
        versions.append((upload.complete()["VersionId"], body))
    assert len({version for version, _ in versions}) == 2
    for version, body in versions:
        assert s3.get_object(Bucket=versioned, Key="object", VersionId=version)["Body"].read() == body


def test_the_size_that_was_announced_must_be_that_of_the_object(s3, bucket, upload):
    upload.put(1, b"body")
    with refused("InvalidRequest", 400):
        upload.complete(MpuObjectSize=5)
    upload.complete(MpuObjectSize=4)
    assert content(s3, bucket) == b"body"


def test_many_small_parts_are_refused_and_many_large_ones_accepted(s3, bucket, upload):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: upload.put(number, b"small"), range(1, 101)))
    with refused("EntityTooSmall", 400):
        upload.complete()
    parts = [bytes([number]) * PART for number in range(12)]
    large = Upload(s3, bucket)
    for number, part in enumerate(parts, 1):
        large.put(number, part)
    assert large.complete()["ETag"] == multipart_etag(parts)
    assert s3.get_object(Bucket=bucket, Key="object", Range=f"bytes={11 * PART - 1}-{11 * PART}")["Body"].read() == b"\x0a\x0b"


def test_the_location_of_a_completed_upload_is_a_url(s3, server, bucket):
    which = {"Bucket": bucket, "Key": "a folder/object"}
    upload = s3.create_multipart_upload(**which)["UploadId"]
    part = s3.upload_part(**which, UploadId=upload, PartNumber=1, Body=b"body")["ETag"]
    answer = s3.complete_multipart_upload(**which, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    assert answer["Location"] == f"{server.endpoint}/{bucket}/a%20folder/object"
