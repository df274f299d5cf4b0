"""ListParts and ListMultipartUploads: what is under way."""

from __future__ import annotations

import json

import pytest

from digests import etag
from wire import refused


@pytest.fixture
def upload(s3, bucket) -> dict:
    which = {"Bucket": bucket, "Key": "object"}
    return which | {"UploadId": s3.create_multipart_upload(**which)["UploadId"]}


def test_parts_are_listed_in_order_with_what_they_are(s3, upload):
    for number in (7, 1, 3):
        s3.upload_part(**upload, PartNumber=number, Body=b"x" * number)
    listing = s3.list_parts(**upload)
    found = [(part["PartNumber"], part["Size"], part["ETag"]) for part in listing["Parts"]]
    assert found == [(number, number, etag(b"x" * number)) for number in (1, 3, 7)]
    assert all(part["LastModified"] for part in listing["Parts"])
    assert (listing["Bucket"], listing["Key"], listing["UploadId"]) == (upload["Bucket"], upload["Key"], upload["UploadId"])
    assert (listing["IsTruncated"], listing["MaxParts"], listing["StorageClass"]) == (False, 1000, "STANDARD")
    assert listing["Owner"]["ID"] == listing["Initiator"]["ID"] == s3.list_buckets()["Owner"]["ID"]


def test_an_upload_without_parts_lists_none(s3, upload):
    listing = s3.list_parts(**upload)
    assert "Parts" not in listing and not listing["IsTruncated"]


def test_a_part_put_again_is_listed_once(s3, upload):
    s3.upload_part(**upload, PartNumber=1, Body=b"first")
    s3.upload_part(**upload, PartNumber=1, Body=b"second")
    assert [(part["PartNumber"], part["ETag"]) for part in s3.list_parts(**upload)["Parts"]] == [(1, etag(b"second"))]


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_pages_of_parts_put_together_are_the_list(s3, upload, size):
    numbers = [1, 2, 5, 9, 200, 10_000]
    for number in numbers:
        s3.upload_part(**upload, PartNumber=number, Body=b"part")
    found, marker = [], 0
    for _ in range(len(numbers)):
        page = s3.list_parts(**upload, MaxParts=size, PartNumberMarker=marker)
        assert (page["MaxParts"], page["PartNumberMarker"]) == (size, marker)
        found += [part["PartNumber"] for part in page["Parts"]]
        if not page["IsTruncated"]:
            break
        assert len(page["Parts"]) == size and page["NextPartNumberMarker"] == found[-1]
        marker = page["NextPartNumberMarker"]
    assert found == numbers


def test_no_more_than_1000_parts_are_on_a_page(s3, upload):
    for number in range(1, 1003):
        s3.upload_part(**upload, PartNumber=number, Body=b"")
    page = s3.list_parts(**upload, MaxParts=5000)
    assert (len(page["Parts"]), page["IsTruncated"], page["NextPartNumberMarker"]) == (1000, True, 1000)
    page = s3.list_parts(**upload, PartNumberMarker=1000)
    assert [part["PartNumber"] for part in page["Parts"]] == [1001, 1002]


@pytest.mark.parametrize("name", ["max-parts", "part-number-marker"])
def test_a_number_that_is_none_is_refused(wire, upload, name):
    for value in ("-1", "many"):
        reply = wire.send("GET", f"/{upload['Bucket']}/{upload['Key']}?uploadId={upload['UploadId']}&{name}={value}")
        assert (reply.status, reply.code) == (400, "InvalidArgument")


@pytest.fixture
def uploads(s3, bucket) -> list[tuple[str, str]]:
    """Key and number of each upload, in order of keys; of one key in the order in which they were begun, as lists have them."""
    keys = ["a", "b/1", "b/2", "b/2", "c/d/3", "e"]
    return [(key, s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]) for key in keys]


def found(listing: dict) -> list[tuple[str, str]]:
    return [(upload["Key"], upload["UploadId"]) for upload in listing.get("Uploads", [])]


def prefixes(listing: dict) -> list[str]:
    return [entry["Prefix"] for entry in listing.get("CommonPrefixes", [])]


def test_uploads_are_listed_in_order_with_what_they_are(s3, bucket, uploads):
    listing = s3.list_multipart_uploads(Bucket=bucket)
    assert found(listing) == uploads
    assert (listing["Bucket"], listing["IsTruncated"], listing["MaxUploads"]) == (bucket, False, 1000)
    owner = s3.list_buckets()["Owner"]["ID"]
    for entry in listing["Uploads"]:
        assert entry["Owner"]["ID"] == entry["Initiator"]["ID"] == owner
        assert entry["Initiated"] and entry["StorageClass"] == "STANDARD"


def test_an_upload_that_has_ended_is_listed_no_more(s3, bucket, uploads):
    (aborted, first), (completed, second), *rest = uploads
    s3.abort_multipart_upload(Bucket=bucket, Key=aborted, UploadId=first)
    tag = s3.upload_part(Bucket=bucket, Key=completed, UploadId=second, PartNumber=1, Body=b"body")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    s3.complete_multipart_upload(Bucket=bucket, Key=completed, UploadId=second, MultipartUpload=parts)
    assert found(s3.list_multipart_uploads(Bucket=bucket)) == rest


def test_a_prefix_chooses_uploads(s3, bucket, uploads):
    assert found(s3.list_multipart_uploads(Bucket=bucket, Prefix="b/")) == uploads[1:4]
    assert found(s3.list_multipart_uploads(Bucket=bucket, Prefix="z")) == []


def test_a_delimiter_rolls_uploads_up(s3, bucket, uploads):
    listing = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert (found(listing), prefixes(listing)) == ([uploads[0], uploads[5]], ["b/", "c/"])
    listing = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/", Prefix="c/")
    assert (found(listing), prefixes(listing)) == ([], ["c/d/"])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 10])
def test_pages_of_uploads_put_together_are_the_list(s3, bucket, uploads, size):
    listed, position = [], {}
    for _ in range(len(uploads)):
        page = s3.list_multipart_uploads(Bucket=bucket, MaxUploads=size, **position)
        listed += found(page)
        if not page["IsTruncated"]:
            break
        assert len(found(page)) == size
        position = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
    assert listed == uploads


def test_a_key_marker_alone_begins_after_all_uploads_of_the_key(s3, bucket, uploads):
    assert found(s3.list_multipart_uploads(Bucket=bucket, KeyMarker="b/2")) == uploads[4:]
    assert found(s3.list_multipart_uploads(Bucket=bucket, KeyMarker="b/11")) == uploads[2:]


def test_an_upload_marker_without_a_key_marker_is_left_out_of_account(s3, bucket, uploads):
    assert found(s3.list_multipart_uploads(Bucket=bucket, UploadIdMarker=uploads[3][1])) == uploads


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_common_prefix_of_uploads_counts_as_one_entry_and_comes_once(s3, bucket, uploads, size):
    keys, rolled, position = [], [], {}
    for _ in range(6):
        page = s3.list_multipart_uploads(Bucket=bucket, MaxUploads=size, Delimiter="/", **position)
        keys += found(page)
        rolled += prefixes(page)
        if not page["IsTruncated"]:
            break
        assert len(found(page)) + len(prefixes(page)) == size
        position = {"KeyMarker": page["NextKeyMarker"]}
        if page.get("NextUploadIdMarker"):
            position["UploadIdMarker"] = page["NextUploadIdMarker"]
    assert (keys, rolled) == ([uploads[0], uploads[5]], ["b/", "c/"])


def test_a_bucket_without_uploads_lists_none(s3, bucket):
    listing = s3.list_multipart_uploads(Bucket=bucket)
    assert "Uploads" not in listing and not listing["IsTruncated"]


def test_nobody_else_lists_uploads(alt, bucket, uploads):
    with refused("AccessDenied", 403):
        alt.list_multipart_uploads(Bucket=bucket)


def test_an_upload_of_another_account_is_for_the_owner_of_the_bucket(s3, alt, bucket):
    """The bucket's owner owns all objects in it, so he will own this one; who has begun it is told beside."""
    owner, other = (client.list_buckets()["Owner"]["ID"] for client in (s3, alt))
    allow = {"Effect": "Allow", "Principal": {"CanonicalUser": other}, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    upload = alt.create_multipart_upload(Bucket=bucket, Key="theirs")["UploadId"]
    (entry,) = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    for listed in (entry, s3.list_parts(Bucket=bucket, Key="theirs", UploadId=upload)):
        assert (listed["Owner"]["ID"], listed["Initiator"]["ID"]) == (owner, other)
