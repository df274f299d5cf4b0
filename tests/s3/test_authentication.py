"""Signatures: who signed, with what, when, and over which bytes."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from urllib3 import encode_multipart_formdata

from digests import checksum
from serving import connect
from wire import SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED, Account, refused

BODY = b"signed"


@pytest.fixture
def target(s3, bucket) -> str:
    s3.put_object(Bucket=bucket, Key="object", Body=BODY)
    return f"/{bucket}/object"


def test_the_signature_of_these_tests_is_accepted(wire, target):
    reply = wire.send("GET", target)
    assert (reply.status, reply.body) == (200, BODY)


def test_an_unsigned_payload_is_accepted(wire, target):
    assert wire.send("PUT", target, {}, b"unsigned", payload=UNSIGNED).status == 200
    assert wire.send("GET", target).body == b"unsigned"


def test_a_wrong_secret_is_refused(server, bucket):
    stranger = connect(server, Account(server.main.access_key, "not-the-secret"))
    with refused("SignatureDoesNotMatch", 403):
        stranger.list_objects_v2(Bucket=bucket)
    with refused("403", 403):
        stranger.head_bucket(Bucket=bucket)
    with refused("SignatureDoesNotMatch", 403):
        stranger.put_object(Bucket=bucket, Key="theirs", Body=BODY)


def test_an_unknown_key_is_refused(server, bucket):
    stranger = connect(server, Account("AKIANOBODYHASTHISKEY", server.main.secret_key))
    with refused("InvalidAccessKeyId", 403):
        stranger.list_objects_v2(Bucket=bucket)
    with refused("InvalidAccessKeyId", 403):
        stranger.list_buckets()


def test_the_key_of_one_account_and_the_secret_of_another_are_refused(server, alt, bucket):
    stranger = connect(server, Account(server.main.access_key, server.alt.secret_key))
    with refused("SignatureDoesNotMatch", 403):
        stranger.list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_request_without_a_signature_is_refused(wire, target, method):
    reply = wire.send(method, target, {}, b"changed" if method == "PUT" else b"", anonymous=True)
    assert (reply.status, reply.code) == (403, "AccessDenied")
    assert wire.send("GET", target).body == BODY


@pytest.mark.parametrize("minutes", [-20, 20, -60 * 24 * 400])
def test_a_clock_that_is_wrong_by_more_than_15_minutes_is_refused(wire, target, minutes):
    reply = wire.send("GET", target, signer=wire.signer(when=datetime.now(UTC) + timedelta(minutes=minutes)))
    assert (reply.status, reply.code) == (403, "RequestTimeTooSkewed")


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_that_is_wrong_by_less_is_accepted(wire, target, minutes):
    assert wire.send("GET", target, signer=wire.signer(when=datetime.now(UTC) + timedelta(minutes=minutes))).status == 200


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%a, %d %b %Y %H:%M:%S -0000", "%Y%m%dT%H%M%SZ"], ids=["HTTP", "mail", "ISO 8601"])
def test_the_time_may_stand_in_the_header_date(wire, target, form):
    def send(minutes: int, date: str | None = None):
        signer = wire.signer(when=datetime.now(UTC) + timedelta(minutes=minutes))
        empty = hashlib.sha256(b"").hexdigest()
        fields = {"Host": wire.host, "Date": signer.when.strftime(form), "x-amz-content-sha256": empty}
        fields["Authorization"] = signer.authorization("GET", target, fields, empty)
        return wire.send("GET", target, fields | ({"Date": date} if date else {}), anonymous=True)

    assert (send(0).status, send(0).body) == (200, BODY)
    assert send(-20).code == "RequestTimeTooSkewed"
    changed = (datetime.now(UTC) + timedelta(minutes=5)).strftime(form)
    assert send(0, changed).code == "SignatureDoesNotMatch"


def test_a_signature_for_another_region_is_refused(wire, target):
    reply = wire.send("GET", target, signer=wire.signer(region="eu-west-7"))
    assert (reply.status, reply.code) == (400, "AuthorizationHeaderMalformed")


def test_a_signature_for_another_service_is_refused(wire, target):
    signer = wire.signer()
    signer.service = "ec2"
    reply = wire.send("GET", target, signer=signer)
    assert (reply.status, reply.code) in [(400, "AuthorizationHeaderMalformed"), (403, "SignatureDoesNotMatch")]


LOOSE = {
    "another word": ("AWS4-HMAC-SHA256 ", "FOO "),
    "lower case": ("AWS4-HMAC-SHA256 ", "aws4-hmac-sha256 "),
    "a tab": ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256\t"),
    "two blanks": ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256  "),
    "a letter more": ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256x "),
    "a field more": (", Signature", ", Extra=1, Signature"),
    "beyond ASCII": ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256\xc3\xa9 "),
}


@pytest.mark.parametrize("case", LOOSE)
def test_a_right_signature_in_a_header_of_another_form_is_refused(wire, target, case):
    was, becomes = LOOSE[case]
    sealed = wire.seal("PUT", target, {"Content-Length": "7"}, hashlib.sha256(b"changed").hexdigest(), wire.signer())
    sealed["Authorization"] = sealed["Authorization"].replace(was, becomes)
    lines = "".join(f"{name}: {value}\r\n" for name, value in sealed.items())
    reply = wire.exchange(f"PUT {target} HTTP/1.1\r\n{lines}Connection: close\r\n\r\nchanged".encode("latin-1"), method="PUT")
    assert reply.status == 400 and reply.code in {"InvalidArgument", "AuthorizationHeaderMalformed"}
    assert wire.send("GET", target).body == BODY


@pytest.mark.parametrize("word", ["AWS4-HMAC-SHA256", "FOO", "AWS4-HMAC-SHA256\xc3\xa9"])
def test_a_header_added_to_the_request_of_another_reads_nothing_for_the_thief(server, alt, wire, s3, bucket, make_bucket, word):
    """With someone's signed empty PUT in hand, an unsigned x-amz-copy-source would copy what only that account may read."""
    theirs = make_bucket(alt)
    alt.put_object(Bucket=theirs, Key="secret", Body=b"secret")
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    sealed = wire.seal("PUT", f"/{bucket}/drop", {"Content-Length": "0"}, hashlib.sha256(b"").hexdigest(), wire.signer(server.alt))
    sealed["Authorization"] = sealed["Authorization"].replace("AWS4-HMAC-SHA256", word)
    sealed["x-amz-copy-source"] = f"/{theirs}/secret"
    lines = "".join(f"{name}: {value}\r\n" for name, value in sealed.items())
    reply = wire.exchange(f"PUT /{bucket}/drop HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode("latin-1"), method="PUT")
    assert reply.status in (400, 403)
    assert wire.send("GET", f"/{bucket}/drop").status == 404


def test_a_malformed_authorization_is_told_as_such(wire, target):
    for value in ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a", "AWS4-HMAC-SHA256 nothing"):
        reply = wire.send("GET", target, {"Authorization": value}, anonymous=True)
        assert (reply.status, reply.code) == (400, "AuthorizationHeaderMalformed")
    reply = wire.send("GET", target, {"Authorization": "Basic dXNlcjpwYXNzd29yZA=="}, anonymous=True)
    assert (reply.status, reply.code) == (400, "InvalidArgument")


TAMPERED = {
    "a signed header": {"x-amz-meta-colour": "red"},
    "the host": {"Host": "another.example"},
    "the date": {"x-amz-date": (datetime.now(UTC) - timedelta(minutes=1)).strftime("%Y%m%dT%H%M00Z")},
    "the digest of the payload": {"x-amz-content-sha256": UNSIGNED},
}


@pytest.mark.parametrize("case", TAMPERED)
def test_what_was_signed_cant_be_changed(wire, target, case):
    fields = {"x-amz-meta-colour": "blue"}
    reply = wire.send("PUT", target, fields, b"changed", tamper=lambda fields: fields.update(TAMPERED[case]))
    assert (reply.status, reply.code) == (403, "SignatureDoesNotMatch")
    assert wire.send("GET", target).body == BODY


def test_a_signed_header_cant_be_taken_away(wire, target):
    reply = wire.send("PUT", target, {"x-amz-meta-colour": "blue"}, b"changed", tamper=lambda fields: fields.pop("x-amz-meta-colour"))
    assert reply.status in (400, 403)
    assert wire.send("GET", target).body == BODY


def test_a_header_of_amazon_cant_be_added(wire, target):
    reply = wire.send("PUT", target, {}, b"changed", tamper=lambda fields: fields.update({"x-amz-meta-colour": "red"}))
    assert (reply.status, reply.code) in [(403, "AccessDenied"), (403, "SignatureDoesNotMatch")]
    assert wire.send("GET", target).body == BODY


def test_a_body_cant_be_changed(wire, target):
    sealed = wire.seal("PUT", target, {"Content-Length": "7"}, hashlib.sha256(b"changed").hexdigest(), wire.signer())
    reply = wire.send("PUT", target, sealed, b"CHANGED", anonymous=True)
    assert (reply.status, reply.code) == (400, "XAmzContentSHA256Mismatch")
    assert wire.send("GET", target).body == BODY


def test_a_query_cant_be_changed(wire, target):
    bucket = target.split("/")[1]
    sealed = wire.seal("GET", f"/{bucket}?list-type=2&prefix=a", {}, UNSIGNED, wire.signer())
    assert wire.send("GET", f"/{bucket}?list-type=2&prefix=o", sealed, anonymous=True).code == "SignatureDoesNotMatch"


def test_a_signature_holds_for_its_method_alone(wire, target):
    sealed = wire.seal("GET", target, {}, UNSIGNED, wire.signer())
    assert wire.send("DELETE", target, sealed, anonymous=True).code == "SignatureDoesNotMatch"
    assert wire.send("GET", target).body == BODY


def test_a_request_without_any_date_is_refused(wire, target):
    sealed = {"Host": wire.host, "x-amz-content-sha256": UNSIGNED}
    sealed["Authorization"] = wire.signer().authorization("GET", target, dict(sealed), UNSIGNED)
    for date in ({}, {"Date": "yesterday"}):
        reply = wire.send("GET", target, sealed | date, anonymous=True)
        assert (reply.status, reply.code) == (403, "AccessDenied")


def test_a_request_without_the_digest_of_its_payload_is_refused(wire, target):
    signer = wire.signer()
    sealed = {"Host": wire.host, "x-amz-date": signer.stamp}
    sealed["Authorization"] = signer.authorization("PUT", target, dict(sealed), UNSIGNED)
    reply = wire.send("PUT", target, sealed, b"changed", anonymous=True)
    assert reply.status in (400, 403)
    assert wire.send("GET", target).body == BODY


def test_a_digest_of_the_payload_that_is_none_is_refused(wire, target):
    reply = wire.send("PUT", target, {}, b"changed", payload="NO-SUCH-PAYLOAD")
    assert (reply.status, reply.code) == (400, "InvalidArgument")


@pytest.fixture
def old(server):
    """A client that signs by version 2, and rightly. It is over by AWS's own word."""
    return connect(server, server.main, signature="s3")


def test_an_old_signature_is_refused(old, wire, target):
    _, bucket, key = target.split("/")
    with refused("InvalidRequest", 400):
        old.get_object(Bucket=bucket, Key=key)
    with refused("InvalidRequest", 400):
        old.put_object(Bucket=bucket, Key=key, Body=b"changed")
    assert wire.send("GET", target).body == BODY


def test_an_old_signature_in_a_url_is_refused(old, wire, target):
    _, bucket, key = target.split("/")
    url = urlsplit(old.generate_presigned_url("get_object", {"Bucket": bucket, "Key": key}))
    assert "AWSAccessKeyId" in url.query
    for query in (url.query, url.query.replace("Signature=", "%53ignature=")):
        reply = wire.send("GET", f"{url.path}?{query}", anonymous=True)
        assert (reply.status, reply.code) == (400, "InvalidRequest")


def test_an_old_signature_in_a_form_is_accepted_if_it_is_right(old, wire, target):
    """It covers what a new one does: the policy, which speaks of every field and ends. boto3 makes such forms by default."""
    _, bucket, key = target.split("/")

    def post(**changed: str):
        form = old.generate_presigned_post(bucket, key)
        assert "AWSAccessKeyId" in form["fields"]
        content, kind = encode_multipart_formdata([*(form["fields"] | changed).items(), ("file", ("name", b"changed"))])
        return wire.send("POST", f"/{bucket}", {"Content-Type": kind}, content, anonymous=True)

    for changed, code in (
        ({"signature": "A" * 27 + "="}, "SignatureDoesNotMatch"),
        ({"policy": "e30="}, "SignatureDoesNotMatch"),
        ({"AWSAccessKeyId": "nobody"}, "InvalidAccessKeyId"),
        ({"key": "other"}, "AccessDenied"),
        ({"x-amz-meta-more": "than was signed"}, "AccessDenied"),
    ):
        reply = post(**changed)
        assert (reply.status, reply.code) == (403, code)
    assert wire.send("GET", target).body == BODY
    assert post().status == 204
    assert wire.send("GET", target).body == b"changed"


CHUNKS = [os.urandom(65_536), os.urandom(65_536), os.urandom(100)]


@pytest.mark.parametrize("chunks", [CHUNKS, [CHUNKS[2]], []], ids=["three", "one", "none"])
def test_a_body_in_signed_chunks_is_accepted(wire, target, chunks):
    reply = wire.send_chunks(target, chunks)
    assert reply.status == 200, reply.body
    assert wire.send("GET", target).body == b"".join(chunks)


def replaced(body: bytes, index: int, value: bytes) -> bytes:
    return body[:index] + value + body[index + len(value) :]


def other_digit(body: bytes, index: int) -> bytes:
    return replaced(body, index, b"0" if body[index : index + 1] != b"0" else b"1")


BROKEN = {
    "a signature in the middle": lambda body: other_digit(body, body.index(b"chunk-signature=", 70_000) + 20),
    "the first signature": lambda body: other_digit(body, body.index(b"chunk-signature=") + 16),
    "the last signature": lambda body: other_digit(body, body.rindex(b"chunk-signature=") + 16),
    "a byte of the first chunk": lambda body: replaced(body, 200, bytes([body[200] ^ 1])),
    "a byte of the last chunk": lambda body: replaced(body, body.rindex(b"\r\n0;") - 1, bytes([body[body.rindex(b"\r\n0;") - 1] ^ 1])),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_chunk_stores_nothing(wire, target, case):
    reply = wire.send_chunks(target, CHUNKS, tamper=BROKEN[case])
    assert (reply.status, reply.code) == (403, "SignatureDoesNotMatch")
    assert wire.send("GET", target).body == BODY


def test_chunks_cant_change_places(wire, target):
    def swap(body: bytes) -> bytes:
        size = body.index(b"10000;", 100)
        return body[size : 2 * size] + body[:size] + body[2 * size :]

    reply = wire.send_chunks(target, CHUNKS, tamper=swap)
    assert (reply.status, reply.code) == (403, "SignatureDoesNotMatch")
    assert wire.send("GET", target).body == BODY


def test_a_signed_trailer_cant_be_changed(wire, target):
    right, wrong = (checksum("CRC32", body) for body in (b"".join(CHUNKS), b"another"))
    reply = wire.send_chunks(
        target,
        CHUNKS,
        payload=SIGNED_CHUNKS_TRAILER,
        trailer=("x-amz-checksum-crc32", right),
        tamper=lambda body: body.replace(right.encode(), wrong.encode()),
    )
    assert (reply.status, reply.code) in [(403, "SignatureDoesNotMatch"), (400, "BadDigest")]
    assert wire.send("GET", target).body == BODY


@pytest.mark.parametrize("length", [131_171, 131_173, 0])
def test_a_decoded_length_that_is_not_that_of_the_chunks_stores_nothing(wire, target, length):
    reply = wire.send_chunks(target, CHUNKS, payload=SIGNED_CHUNKS, length=length)
    assert reply.status == 400 and reply.code in {"IncompleteBody", "InvalidRequest", "InvalidArgument", "InvalidChunkSizeError"}
    assert wire.send("GET", target).body == BODY


def test_chunks_without_their_decoded_length_are_refused(wire, target):
    sealed = wire.seal("PUT", target, {"Content-Encoding": "aws-chunked"}, SIGNED_CHUNKS, wire.signer())
    reply = wire.send("PUT", target, sealed, b"0;chunk-signature=" + b"0" * 64 + b"\r\n\r\n", anonymous=True)
    assert (reply.status, reply.code) in [(411, "MissingContentLength"), (400, "InvalidRequest")]
    assert wire.send("GET", target).body == BODY
