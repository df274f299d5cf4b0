"""Requests without a signature in buckets that let everybody put: what their headers say of the body holds there too."""

from __future__ import annotations

import hashlib
import json

import pytest

from digests import checksum
from wire import SIGNED_CHUNKS, UNSIGNED, UNSIGNED_CHUNKS_TRAILER

BODY = b"from anyone"


@pytest.fixture
def public(s3, bucket) -> str:
    statement = {"Effect": "Allow", "Principal": "*", "Action": ["s3:PutObject", "s3:GetObject"], "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    return f"/{bucket}/object"


def framed(*lines: str) -> bytes:
    return b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY) + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


def put(wire, target: str, body: bytes, **fields: str):
    return wire.send("PUT", target, {name.replace("_", "-"): value for name, value in fields.items()}, body, anonymous=True)


def stored(wire, target: str) -> bytes | None:
    reply = wire.send("GET", target, anonymous=True)
    return reply.body if reply.status == 200 else None


@pytest.mark.parametrize("payload", [None, UNSIGNED, hashlib.sha256(BODY).hexdigest()], ids=["nothing", "unsigned", "digest"])
def test_an_unsigned_body_that_is_what_it_says_is_stored(wire, public, payload):
    assert put(wire, public, BODY, **({"x_amz_content_sha256": payload} if payload else {})).status == 200
    assert stored(wire, public) == BODY


def test_an_unsigned_body_with_a_wrong_digest_is_refused(wire, public):
    reply = put(wire, public, BODY, x_amz_content_sha256=hashlib.sha256(b"other").hexdigest())
    assert (reply.status, reply.code) == (400, "XAmzContentSHA256Mismatch")
    reply = put(wire, public, BODY, x_amz_content_sha256="no digest")
    assert (reply.status, reply.code) == (400, "InvalidArgument")
    assert stored(wire, public) is None


@pytest.mark.parametrize("by", ["payload", "encoding"])
def test_unsigned_chunks_are_taken_apart(wire, public, by):
    fields = {"x_amz_decoded_content_length": str(len(BODY)), "Content_Encoding": "aws-chunked"}
    fields |= {"x_amz_content_sha256": UNSIGNED_CHUNKS_TRAILER} if by == "payload" else {}
    assert put(wire, public, framed(), **fields).status == 200
    assert stored(wire, public) == BODY
    right, wrong = (f"x-amz-checksum-crc32:{checksum('CRC32', body)}" for body in (BODY, b"other"))
    fields["x_amz_trailer"] = "x-amz-checksum-crc32"
    assert put(wire, public, framed(right), **fields).status == 200
    for line, code in ((wrong, "BadDigest"), ("", "MalformedTrailerError"), ("what is this", "MalformedTrailerError")):
        reply = put(wire, public, framed(line) if line else framed(), **fields)
        assert (reply.status, reply.code) == (400, code), line
    assert stored(wire, public) == BODY


def test_chunks_that_cant_be_taken_apart_are_refused(wire, public):
    length = {"x_amz_decoded_content_length": str(len(BODY))}
    for body, fields in (
        (framed(), {"x_amz_content_sha256": SIGNED_CHUNKS} | length),
        (framed(), {"x_amz_content_sha256": UNSIGNED_CHUNKS_TRAILER}),
        (BODY, {"x_amz_content_sha256": UNSIGNED_CHUNKS_TRAILER} | length),
        (framed()[:-4], {"x_amz_content_sha256": UNSIGNED_CHUNKS_TRAILER} | length),
        (framed(), {"x_amz_content_sha256": UNSIGNED_CHUNKS_TRAILER, "x_amz_decoded_content_length": "5"}),
    ):
        assert put(wire, public, body, **fields).status in (400, 411), (body, fields)
    assert stored(wire, public) is None


def test_an_unsigned_part_is_checked_too(s3, wire, public):
    _, bucket, key = public.split("/")
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    part = f"{public}?partNumber=1&uploadId={upload}"
    reply = put(wire, part, BODY, x_amz_content_sha256=hashlib.sha256(b"other").hexdigest())
    assert (reply.status, reply.code) == (400, "XAmzContentSHA256Mismatch")
    fields = {"x_amz_content_sha256": UNSIGNED_CHUNKS_TRAILER, "x_amz_decoded_content_length": str(len(BODY))}
    reply = put(wire, part, framed(), **fields)
    assert (reply.status, reply.headers.get("etag")) == (200, f'"{hashlib.md5(BODY).hexdigest()}"')
