"""Ranges: a piece of an object, and what is said when there is none."""

from __future__ import annotations

import os
import random

import pytest

from digests import etag
from wire import refused, status

SIZE = 200_000
BODY = os.urandom(SIZE)


@pytest.fixture
def key(s3, bucket) -> str:
    s3.put_object(Bucket=bucket, Key="object", Body=BODY)
    return "object"


RANGES = {
    "bytes=0-0": (0, 1),
    "bytes=0-9": (0, 10),
    "bytes=65530-65545": (65_530, 65_546),
    "bytes=65536-131071": (65_536, 131_072),
    "bytes=100-": (100, SIZE),
    "bytes=199999-": (SIZE - 1, SIZE),
    "bytes=199999-199999": (SIZE - 1, SIZE),
    "bytes=199990-999999": (SIZE - 10, SIZE),
    "bytes=0-199999": (0, SIZE),
    "bytes=0-": (0, SIZE),
    "bytes=-1": (SIZE - 1, SIZE),
    "bytes=-70000": (SIZE - 70_000, SIZE),
    "bytes=-200000": (0, SIZE),
    "bytes=-999999": (0, SIZE),
}


@pytest.mark.parametrize("asked", RANGES)
def test_a_range_gives_these_bytes(s3, bucket, key, asked):
    first, end = RANGES[asked]
    got = s3.get_object(Bucket=bucket, Key=key, Range=asked)
    assert status(got) == 206
    assert got["Body"].read() == BODY[first:end]
    assert got["ContentRange"] == f"bytes {first}-{end - 1}/{SIZE}"
    assert got["ContentLength"] == end - first
    assert got["ETag"] == etag(BODY)


def test_a_head_says_of_a_range_what_a_get_would(s3, bucket, key):
    head = s3.head_object(Bucket=bucket, Key=key, Range="bytes=10-19")
    assert (status(head), head["ContentLength"]) == (206, 10)
    assert head["ContentRange"] == f"bytes 10-19/{SIZE}"


@pytest.mark.parametrize(
    "asked", ["bytes=200000-", "bytes=200000-200010", "bytes=999999-", "bytes=-0", f"bytes={2**64}-{2**64 + 1}", "bytes=0200000-"]
)
def test_a_range_beyond_the_end_cant_be_had(s3, bucket, key, asked):
    with refused("InvalidRange", 416) as caught:
        s3.get_object(Bucket=bucket, Key=key, Range=asked)
    told = caught.value.response["Error"]
    assert (told["RangeRequested"], told["ActualObjectSize"]) == (asked, str(SIZE))
    with refused("416", 416):
        s3.head_object(Bucket=bucket, Key=key, Range=asked)


@pytest.mark.parametrize(
    "asked", ["bytes=9-5", "bytes=a-b", "bytes=", "bytes=-", "bytes=--1", "octets=0-5", "0-5", "bytes 0-5", "bytes=0x1-0x5"]
)
def test_a_range_that_is_none_is_left_out_of_account(s3, bucket, key, asked):
    got = s3.get_object(Bucket=bucket, Key=key, Range=asked)
    assert status(got) == 200 and got["ContentLength"] == SIZE and "ContentRange" not in got
    assert got["Body"].read() == BODY


def test_numbers_beyond_all_sizes_end_at_the_end(s3, bucket, key):
    got = s3.get_object(Bucket=bucket, Key=key, Range=f"bytes=199998-{2**63 - 1}")
    assert got["Body"].read() == BODY[-2:]


@pytest.mark.parametrize("asked", ["bytes=0-0", "bytes=0-", "bytes=5-9"])
def test_an_empty_object_has_no_range(s3, bucket, asked):
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    with refused("InvalidRange", 416):
        s3.get_object(Bucket=bucket, Key="empty", Range=asked)


def test_ranges_put_together_are_the_object(s3, bucket, key):
    chance, pieces, start = random.Random(4), b"", 0
    while start < SIZE:
        end = min(SIZE, start + chance.randrange(1, 30_000))
        pieces += s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{end - 1}")["Body"].read()
        start = end
    assert pieces == BODY


def test_any_range_of_a_large_object_is_right(s3, bucket):
    body = os.urandom(9_000_000)
    s3.put_object(Bucket=bucket, Key="large", Body=body)
    chance = random.Random(11)
    for _ in range(20):
        first = chance.randrange(len(body))
        last = min(len(body) - 1, first + chance.choice([0, 1, 100, 65_536, 1_000_000]))
        assert s3.get_object(Bucket=bucket, Key="large", Range=f"bytes={first}-{last}")["Body"].read() == body[first : last + 1]


def test_a_range_that_was_given_up_leaves_nothing_behind(s3, bucket, key):
    """A client may hang up in the middle of an answer."""
    for _ in range(5):
        got = s3.get_object(Bucket=bucket, Key=key)
        got["Body"].read(10)
        got["Body"].close()
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == BODY


PART = 5 * 2**20


@pytest.fixture
def parts(s3, bucket) -> list[bytes]:
    parts = [os.urandom(PART), os.urandom(PART + 7), os.urandom(123)]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    done = []
    for number, part in enumerate(parts, 1):
        tag = s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=number, Body=part)["ETag"]
        done.append({"PartNumber": number, "ETag": tag})
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": done})
    return parts


def test_a_part_can_be_got_by_its_number(s3, bucket, parts):
    start = 0
    for number, part in enumerate(parts, 1):
        got = s3.get_object(Bucket=bucket, Key="parts", PartNumber=number)
        head = s3.head_object(Bucket=bucket, Key="parts", PartNumber=number)
        assert status(got) == status(head) == 206
        assert got["Body"].read() == part
        assert got["PartsCount"] == head["PartsCount"] == len(parts)
        assert got["ContentRange"] == f"bytes {start}-{start + len(part) - 1}/{sum(map(len, parts))}"
        assert head["ContentLength"] == len(part)
        start += len(part)


def test_a_range_across_parts_is_seamless(s3, bucket, parts):
    whole = b"".join(parts)
    for first, last in [(PART - 5, PART + 5), (PART + 1, 2 * PART + 100), (0, len(whole) - 1)]:
        assert s3.get_object(Bucket=bucket, Key="parts", Range=f"bytes={first}-{last}")["Body"].read() == whole[first : last + 1]


def test_a_part_that_is_not_there_cant_be_had(s3, bucket, parts):
    with refused({"InvalidPartNumber", "InvalidPart"}, 416):
        s3.get_object(Bucket=bucket, Key="parts", PartNumber=4)
    with refused("416", 416):
        s3.head_object(Bucket=bucket, Key="parts", PartNumber=4)


def test_an_object_that_was_put_whole_is_its_first_part(s3, bucket, key):
    got = s3.get_object(Bucket=bucket, Key=key, PartNumber=1)
    assert got["Body"].read() == BODY and "PartsCount" not in got
    with refused({"InvalidPartNumber", "InvalidPart"}, 416):
        s3.get_object(Bucket=bucket, Key=key, PartNumber=2)


def test_a_range_and_a_part_number_are_not_asked_for_together(s3, bucket, key):
    with refused("InvalidRequest", 400):
        s3.get_object(Bucket=bucket, Key=key, PartNumber=1, Range="bytes=0-1")


@pytest.mark.parametrize("number", ["0", "-1", "10001", "x"])
def test_a_part_number_out_of_its_range_is_refused(wire, s3, bucket, key, number):
    reply = wire.send("GET", f"/{bucket}/{key}?partNumber={number}")
    assert (reply.status, reply.code) == (400, "InvalidArgument")


@pytest.mark.parametrize("asked", ["bytes=-1", "bytes=0-", "bytes=0-0", "bytes=-0"])
def test_an_empty_object_has_no_range(s3, bucket, asked):
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    with refused("InvalidRange", 416):
        s3.get_object(Bucket=bucket, Key="empty", Range=asked)


def test_the_first_part_of_an_empty_object_is_all_of_it(s3, bucket):
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    for call in (s3.get_object, s3.head_object):
        answer = call(Bucket=bucket, Key="empty", PartNumber=1)
        assert (status(answer), answer["ContentLength"]) == (200, 0) and "ContentRange" not in answer
