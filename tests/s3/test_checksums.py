"""Checksums of one request: given, verified, stored, and told to who asks for them."""

from __future__ import annotations

import os

import pytest

from digests import ALGORITHMS, checksum, etag, raw
from wire import SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER, headers, refused

BODY = b"every byte counts" * 100
# The check values of the CRCs, for the text "123456789", from the catalogue of parametrised CRC algorithms.
KNOWN = {"CRC32": 0xCBF43926, "CRC32C": 0xE3069283, "CRC64NVME": 0xAE8B14860A799888}
EACH = pytest.mark.parametrize("algorithm", ALGORITHMS)


def given(algorithm: str, body: bytes) -> dict[str, str]:
    return {f"Checksum{algorithm}": checksum(algorithm, body)}


@pytest.mark.parametrize("algorithm", KNOWN)
def test_the_checksums_of_these_tests_are_those_of_the_standards(algorithm):
    assert int.from_bytes(raw(algorithm, b"123456789"), "big") == KNOWN[algorithm]


@EACH
@pytest.mark.parametrize("body", [b"", b"123456789", BODY], ids=["empty", "known", "longer"])
def test_a_checksum_in_a_header_is_verified_stored_and_told(s3, bucket, algorithm, body):
    name = f"Checksum{algorithm}"
    put = s3.put_object(Bucket=bucket, Key="object", Body=body, **given(algorithm, body))
    assert put[name] == checksum(algorithm, body) and put["ChecksumType"] == "FULL_OBJECT"
    got = s3.get_object(Bucket=bucket, Key="object", ChecksumMode="ENABLED")
    head = s3.head_object(Bucket=bucket, Key="object", ChecksumMode="ENABLED")
    assert got["Body"].read() == body
    assert got[name] == head[name] == checksum(algorithm, body)
    assert got["ChecksumType"] == head["ChecksumType"] == "FULL_OBJECT"
    others = {f"Checksum{other}" for other in ALGORITHMS} - {name}
    assert not others & (got.keys() | head.keys())


@EACH
def test_a_wrong_checksum_stores_nothing(s3, bucket, algorithm):
    s3.put_object(Bucket=bucket, Key="object", Body=b"kept")
    with refused("BadDigest", 400):
        s3.put_object(Bucket=bucket, Key="object", Body=BODY, **given(algorithm, BODY + b"!"))
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"kept"


@EACH
@pytest.mark.parametrize("value", ["", "AAA=", "no base64 !!", "A" * 200], ids=["empty", "short", "no base64", "long"])
def test_a_checksum_that_is_none_is_refused(wire, bucket, algorithm, value):
    reply = wire.send("PUT", f"/{bucket}/object", {f"x-amz-checksum-{algorithm.lower()}": value}, BODY)
    assert reply.status == 400 and reply.code in {"InvalidRequest", "BadDigest"}
    assert wire.send("HEAD", f"/{bucket}/object").status == 404


def test_two_checksums_in_one_request_are_refused(wire, bucket):
    fields = {f"x-amz-checksum-{name.lower()}": checksum(name, BODY) for name in ("CRC32", "SHA256")}
    reply = wire.send("PUT", f"/{bucket}/object", fields, BODY)
    assert (reply.status, reply.code) == (400, "InvalidRequest")


def test_an_algorithm_without_its_checksum_is_refused(wire, bucket):
    reply = wire.send("PUT", f"/{bucket}/object", {"x-amz-sdk-checksum-algorithm": "SHA256"}, BODY)
    assert (reply.status, reply.code) == (400, "InvalidRequest")


def test_an_algorithm_and_the_checksum_of_another_are_refused(wire, bucket):
    fields = {"x-amz-sdk-checksum-algorithm": "SHA256", "x-amz-checksum-crc32": checksum("CRC32", BODY)}
    reply = wire.send("PUT", f"/{bucket}/object", fields, BODY)
    assert reply.status == 400 and reply.code in {"InvalidRequest", "BadDigest"}


def test_without_a_checksum_the_server_computes_one(wire, s3, bucket):
    """What SDKs of before 2025 send has the checksum that AWS gives it."""
    assert wire.send("PUT", f"/{bucket}/object", {}, BODY).status == 200
    head = s3.head_object(Bucket=bucket, Key="object", ChecksumMode="ENABLED")
    assert (head["ChecksumCRC64NVME"], head["ChecksumType"]) == (checksum("CRC64NVME", BODY), "FULL_OBJECT")


def test_checksums_are_told_only_to_who_asks(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, **given("SHA256", BODY))
    assert "x-amz-checksum-sha256" not in headers(s3.head_object(Bucket=bucket, Key="object"))


def test_the_checksum_of_a_range_is_not_that_of_the_object(s3, bucket):
    """A client would compare it with what it got."""
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, **given("CRC32", BODY))
    got = s3.get_object(Bucket=bucket, Key="object", Range="bytes=0-3", ChecksumMode="ENABLED")
    assert got["Body"].read() == BODY[:4]
    assert got.get("ChecksumCRC32") in (None, checksum("CRC32", BODY[:4]))


@EACH
def test_a_list_says_which_algorithm_an_object_has(s3, bucket, algorithm):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, **given(algorithm, BODY))
    for entry in (
        s3.list_objects_v2(Bucket=bucket)["Contents"][0],
        s3.list_objects(Bucket=bucket)["Contents"][0],
        s3.list_object_versions(Bucket=bucket)["Versions"][0],
    ):
        assert (entry["ChecksumAlgorithm"], entry["ChecksumType"]) == ([algorithm], "FULL_OBJECT")


@EACH
def test_attributes_have_the_checksum(s3, bucket, algorithm):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, **given(algorithm, BODY))
    wanted = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    answer = s3.get_object_attributes(Bucket=bucket, Key="object", ObjectAttributes=wanted)
    assert answer["Checksum"] == given(algorithm, BODY) | {"ChecksumType": "FULL_OBJECT"}
    assert (answer["ETag"], answer["ObjectSize"], answer["StorageClass"]) == (etag(BODY).strip('"'), len(BODY), "STANDARD")
    assert "ObjectParts" not in answer and answer["LastModified"]


def test_attributes_are_those_that_were_asked_for(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY)
    answer = s3.get_object_attributes(Bucket=bucket, Key="object", ObjectAttributes=["ObjectSize"])
    assert answer["ObjectSize"] == len(BODY)
    assert not {"ETag", "Checksum", "StorageClass"} & answer.keys()


def test_attributes_that_are_none_are_refused(s3, wire, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY)
    with refused("InvalidArgument", 400):
        s3.get_object_attributes(Bucket=bucket, Key="object", ObjectAttributes=["Colour"])
    reply = wire.send("GET", f"/{bucket}/object?attributes")
    assert reply.status == 400 and reply.code in {"InvalidRequest", "InvalidArgument"}
    with refused("NoSuchKey", 404):
        s3.get_object_attributes(Bucket=bucket, Key="nothing", ObjectAttributes=["ETag"])


def test_attributes_of_a_version_and_of_a_marker(s3, versioned):
    old = s3.put_object(Bucket=versioned, Key="object", Body=b"old")["VersionId"]
    s3.put_object(Bucket=versioned, Key="object", Body=b"newer")
    answer = s3.get_object_attributes(Bucket=versioned, Key="object", VersionId=old, ObjectAttributes=["ObjectSize"])
    assert (answer["ObjectSize"], answer["VersionId"]) == (3, old)
    marker = s3.delete_object(Bucket=versioned, Key="object")["VersionId"]
    with refused("NoSuchKey", 404):
        s3.get_object_attributes(Bucket=versioned, Key="object", ObjectAttributes=["ETag"])
    with refused("MethodNotAllowed", 405):
        s3.get_object_attributes(Bucket=versioned, Key="object", VersionId=marker, ObjectAttributes=["ETag"])


def test_a_copy_keeps_the_checksum_or_gets_another(s3, bucket):
    s3.put_object(Bucket=bucket, Key="source", Body=BODY, **given("SHA256", BODY))
    source = {"Bucket": bucket, "Key": "source"}
    assert s3.copy_object(Bucket=bucket, Key="same", CopySource=source)["CopyObjectResult"]["ChecksumSHA256"] == checksum("SHA256", BODY)
    answer = s3.copy_object(Bucket=bucket, Key="other", CopySource=source, ChecksumAlgorithm="CRC32C")["CopyObjectResult"]
    assert answer["ChecksumCRC32C"] == checksum("CRC32C", BODY)
    head = s3.head_object(Bucket=bucket, Key="other", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32C"] == checksum("CRC32C", BODY) and "ChecksumSHA256" not in head


CHUNKS = [os.urandom(65_536), os.urandom(65_536), os.urandom(1_000)]
WHOLE = b"".join(CHUNKS)
FRAMES = pytest.mark.parametrize("payload", [SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER], ids=["signed", "unsigned"])


@EACH
@FRAMES
def test_a_checksum_behind_the_body_is_verified_and_stored(s3, wire, bucket, algorithm, payload):
    name = f"x-amz-checksum-{algorithm.lower()}"
    reply = wire.send_chunks(f"/{bucket}/object", CHUNKS, payload=payload, trailer=(name, checksum(algorithm, WHOLE)))
    assert (reply.status, reply.headers.get(name)) == (200, checksum(algorithm, WHOLE)), reply.body
    got = s3.get_object(Bucket=bucket, Key="object", ChecksumMode="ENABLED")
    assert (got["Body"].read(), got[f"Checksum{algorithm}"]) == (WHOLE, checksum(algorithm, WHOLE))
    # `aws-chunked` was for the way here.
    assert "aws-chunked" not in got.get("ContentEncoding", "")


@EACH
@FRAMES
def test_a_wrong_checksum_behind_the_body_stores_nothing(wire, bucket, algorithm, payload):
    trailer = (f"x-amz-checksum-{algorithm.lower()}", checksum(algorithm, WHOLE + b"!"))
    reply = wire.send_chunks(f"/{bucket}/object", CHUNKS, payload=payload, trailer=trailer)
    assert (reply.status, reply.code) == (400, "BadDigest")
    assert wire.send("HEAD", f"/{bucket}/object").status == 404


@FRAMES
@pytest.mark.parametrize("chunks", [[], [b"x"]], ids=["empty", "one byte"])
def test_a_short_body_with_a_checksum_behind_it_is_stored(wire, bucket, payload, chunks):
    trailer = ("x-amz-checksum-crc32", checksum("CRC32", b"".join(chunks)))
    assert wire.send_chunks(f"/{bucket}/object", chunks, payload=payload, trailer=trailer).status == 200
    assert wire.send("GET", f"/{bucket}/object").body == b"".join(chunks)


@FRAMES
def test_a_trailer_that_was_announced_must_come(wire, bucket, payload):
    reply = wire.send_chunks(f"/{bucket}/object", CHUNKS, payload=payload, declared="x-amz-checksum-crc32")
    assert reply.status == 400 or (reply.status, reply.code) == (403, "SignatureDoesNotMatch")
    assert wire.send("HEAD", f"/{bucket}/object").status == 404


@FRAMES
def test_another_trailer_than_was_announced_is_refused(wire, bucket, payload):
    trailer = ("x-amz-checksum-crc32", checksum("CRC32", WHOLE))
    reply = wire.send_chunks(f"/{bucket}/object", CHUNKS, payload=payload, trailer=trailer, declared="x-amz-checksum-sha256")
    assert reply.status == 400
    assert wire.send("HEAD", f"/{bucket}/object").status == 404


def test_an_encoding_of_the_client_stays_when_that_of_the_chunks_is_taken_off(s3, wire, bucket):
    trailer = ("x-amz-checksum-crc32", checksum("CRC32", WHOLE))
    fields = {"Content-Encoding": "gzip,aws-chunked"}
    assert wire.send_chunks(f"/{bucket}/object", CHUNKS, payload=UNSIGNED_CHUNKS_TRAILER, trailer=trailer, fields=fields).status == 200
    assert s3.head_object(Bucket=bucket, Key="object")["ContentEncoding"].rstrip(",") == "gzip"


@pytest.mark.parametrize("name", ["x-amz-checksum-crc16", "x-amz-checksum-sha3-256", "x-amz-checksum-sha384"])
def test_a_checksum_that_nobody_would_check_is_refused(wire, bucket, name):
    reply = wire.send("PUT", f"/{bucket}/object", {name: "AAAA"}, BODY)
    assert (reply.status, reply.code) == (400, "InvalidRequest")
    assert wire.send("HEAD", f"/{bucket}/object").status == 404
