"""UploadPartCopy: parts that come from objects the server has already."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from digests import ALGORITHMS, checksum, composite, etag, multipart_etag
from wire import refused

PART = 5 * 2**20
BODY = random.Random(5).randbytes(PART + 1000)


@pytest.fixture
def source(s3, bucket) -> dict:
    s3.put_object(Bucket=bucket, Key="source", Body=BODY)
    return {"Bucket": bucket, "Key": "source"}


@pytest.fixture
def upload(s3, bucket) -> dict:
    which = {"Bucket": bucket, "Key": "object"}
    return which | {"UploadId": s3.create_multipart_upload(**which)["UploadId"]}


def complete(s3, upload: dict, tags: list[str]):
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
    return s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def content(s3, upload: dict) -> bytes:
    return s3.get_object(Bucket=upload["Bucket"], Key=upload["Key"])["Body"].read()


def test_a_whole_object_becomes_a_part(s3, source, upload):
    answer = s3.upload_part_copy(**upload, PartNumber=1, CopySource=source)["CopyPartResult"]
    assert answer["ETag"] == etag(BODY) and answer["LastModified"]
    last = s3.upload_part(**upload, PartNumber=2, Body=b"and more")["ETag"]
    assert complete(s3, upload, [answer["ETag"], last])["ETag"] == multipart_etag([BODY, b"and more"])
    assert content(s3, upload) == BODY + b"and more"


def test_ranges_become_parts(s3, source, upload):
    pieces = [(0, PART - 1), (PART - 500, PART + 999)]
    tags = []
    for number, (first, last) in enumerate(pieces, 1):
        copied = s3.upload_part_copy(**upload, PartNumber=number, CopySource=source, CopySourceRange=f"bytes={first}-{last}")
        tags.append(copied["CopyPartResult"]["ETag"])
        assert tags[-1] == etag(BODY[first : last + 1])
    complete(s3, upload, tags)
    assert content(s3, upload) == BODY[:PART] + BODY[PART - 500 :]


def test_a_single_byte_becomes_a_part(s3, source, upload):
    answer = s3.upload_part_copy(**upload, PartNumber=1, CopySource=source, CopySourceRange=f"bytes={PART + 999}-{PART + 999}")
    complete(s3, upload, [answer["CopyPartResult"]["ETag"]])
    assert content(s3, upload) == BODY[-1:]


@pytest.mark.parametrize("asked", ["bytes=0-99999999", f"bytes={PART + 1000}-{PART + 1001}"])
def test_a_range_beyond_the_end_is_refused(s3, source, upload, asked):
    """Unlike in a read, where it ends at the end."""
    with refused({"InvalidArgument", "InvalidRange", "InvalidRequest"}, 400):
        s3.upload_part_copy(**upload, PartNumber=1, CopySource=source, CopySourceRange=asked)


@pytest.mark.parametrize("asked", ["0-1", "bytes=0", "bytes=0-", "bytes=-5", "bytes=5-1", "bytes=a-b", "bytes=0-1,3-4"])
def test_a_range_that_is_none_is_refused(s3, source, upload, asked):
    with refused("InvalidArgument", 400):
        s3.upload_part_copy(**upload, PartNumber=1, CopySource=source, CopySourceRange=asked)


def test_a_part_comes_from_another_bucket_and_an_odd_key(s3, upload, make_bucket):
    other = {"Bucket": make_bucket(), "Key": "odd key/+%é"}
    s3.put_object(**other, Body=b"odd")
    tag = s3.upload_part_copy(**upload, PartNumber=1, CopySource=other)["CopyPartResult"]["ETag"]
    complete(s3, upload, [tag])
    assert content(s3, upload) == b"odd"


def test_a_part_comes_from_an_old_version(s3, versioned):
    old = s3.put_object(Bucket=versioned, Key="source", Body=b"old")["VersionId"]
    s3.put_object(Bucket=versioned, Key="source", Body=b"new")
    which = {"Bucket": versioned, "Key": "object"}
    upload = which | {"UploadId": s3.create_multipart_upload(**which)["UploadId"]}
    answer = s3.upload_part_copy(**upload, PartNumber=1, CopySource={"Bucket": versioned, "Key": "source", "VersionId": old})
    assert answer["CopySourceVersionId"] == old
    complete(s3, upload, [answer["CopyPartResult"]["ETag"]])
    assert content(s3, upload) == b"old"


def test_a_source_that_is_not_there_is_named_as_the_reason(s3, upload, bucket_name):
    with refused("NoSuchKey", 404):
        s3.upload_part_copy(**upload, PartNumber=1, CopySource={"Bucket": upload["Bucket"], "Key": "nothing"})
    with refused("NoSuchBucket", 404):
        s3.upload_part_copy(**upload, PartNumber=1, CopySource={"Bucket": bucket_name, "Key": "nothing"})


def test_an_upload_nobody_began_is_named_as_the_reason(s3, source, upload):
    with refused("NoSuchUpload", 404):
        s3.upload_part_copy(**upload | {"UploadId": "no-upload-looks-like-this"}, PartNumber=1, CopySource=source)


@pytest.mark.parametrize("number", [0, 10_001])
def test_a_part_number_out_of_its_range_is_refused(s3, source, upload, number):
    with refused("InvalidArgument", 400):
        s3.upload_part_copy(**upload, PartNumber=number, CopySource=source)


@pytest.mark.parametrize(
    "name, value", [("IfMatch", etag(b"another")), ("IfNoneMatch", etag(BODY)), ("IfModifiedSince", 0), ("IfUnmodifiedSince", -3600)]
)
def test_conditions_on_the_source_are_kept(s3, source, upload, name, value):
    if isinstance(value, int):
        value = s3.head_object(**source)["LastModified"] + timedelta(seconds=value)
    with refused("PreconditionFailed", 412):
        s3.upload_part_copy(**upload, PartNumber=1, CopySource=source, **{f"CopySource{name}": value})
    assert "Parts" not in s3.list_parts(**upload)


def test_nobody_copies_parts_of_what_he_may_not_read(alt, source, make_bucket):
    which = {"Bucket": make_bucket(alt), "Key": "object"}
    upload = which | {"UploadId": alt.create_multipart_upload(**which)["UploadId"]}
    with refused("AccessDenied", 403):
        alt.upload_part_copy(**upload, PartNumber=1, CopySource=source)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_copied_part_comes_with_its_checksum(s3, bucket, source, algorithm):
    """Without it, the CLI can't copy what has more than 8 MiB with a checksum of its choice."""
    which = {"Bucket": bucket, "Key": "object"}
    which["UploadId"] = s3.create_multipart_upload(**which, ChecksumAlgorithm=algorithm)["UploadId"]
    name, parts, pieces = f"Checksum{algorithm}", [], [BODY[:PART], BODY[PART:]]
    for number, (first, piece) in enumerate(zip((0, PART), pieces), 1):
        asked = f"bytes={first}-{first + len(piece) - 1}"
        part = s3.upload_part_copy(**which, PartNumber=number, CopySource=source, CopySourceRange=asked)["CopyPartResult"]
        assert part[name] == checksum(algorithm, piece)
        parts.append({"PartNumber": number, "ETag": part["ETag"], name: part[name]})
    listed = s3.list_parts(**which)
    assert [part[name] for part in listed["Parts"]] == [part[name] for part in parts]
    expected = checksum(algorithm, BODY) if algorithm == "CRC64NVME" else composite(algorithm, pieces)
    wrong = parts[:1] + [parts[1] | {name: parts[0][name]}]
    with refused("InvalidPart", 400):
        s3.complete_multipart_upload(**which, MultipartUpload={"Parts": wrong})
    assert s3.complete_multipart_upload(**which, MultipartUpload={"Parts": parts})[name] == expected
    attributes = s3.get_object_attributes(Bucket=bucket, Key="object", ObjectAttributes=["Checksum", "ObjectParts"])
    assert attributes["Checksum"][name].split("-")[0] == expected.split("-")[0]
    assert [part[name] for part in attributes["ObjectParts"]["Parts"]] == [part[name] for part in parts]
