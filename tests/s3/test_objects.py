"""Objects: put, got and headed, with everything that is said about them."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from digests import content_md5, etag
from wire import UNSIGNED, refused


@pytest.mark.parametrize("size", [0, 1, 2, 65_535, 65_536, 65_537, 1_048_577, 20_000_000])
def test_what_was_put_is_got(s3, bucket, size):
    body = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="object", Body=body)
    got = s3.get_object(Bucket=bucket, Key="object")
    head = s3.head_object(Bucket=bucket, Key="object")
    assert got["Body"].read() == body
    assert put["ETag"] == got["ETag"] == head["ETag"] == etag(body)
    assert got["ContentLength"] == head["ContentLength"] == size


def test_every_byte_value_survives(s3, bucket):
    body = bytes(range(256)) * 3
    s3.put_object(Bucket=bucket, Key="object", Body=body)
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == body


def test_an_object_put_again_is_replaced_with_all_that_was_said_of_it(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"first and longer", Metadata={"a": "1"}, ContentType="text/plain")
    s3.put_object(Bucket=bucket, Key="object", Body=b"second", Metadata={"b": "2"})
    got = s3.get_object(Bucket=bucket, Key="object")
    assert got["Body"].read() == b"second"
    assert (got["Metadata"], got["ContentType"]) == ({"b": "2"}, "binary/octet-stream")


def test_a_key_that_is_not_there_is_refused(s3, bucket):
    with refused("NoSuchKey", 404) as caught:
        s3.get_object(Bucket=bucket, Key="nothing")
    assert caught.value.response["Error"]["Key"] == "nothing"
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="nothing")


def test_a_folder_of_objects_is_no_object(s3, bucket):
    s3.put_object(Bucket=bucket, Key="folder/object", Body=b"object")
    for key in ("folder", "folder/", "folder/object/"):
        with refused("NoSuchKey", 404):
            s3.get_object(Bucket=bucket, Key=key)


def test_an_object_may_have_the_name_of_a_folder(s3, bucket):
    bodies = {"name": b"1", "name/": b"2", "name/name": b"3"}
    for key, body in bodies.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    assert {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in bodies} == bodies


def test_the_time_of_an_object_is_when_it_was_put(s3, bucket):
    before = datetime.now(UTC)
    s3.put_object(Bucket=bucket, Key="object", Body=b"object")
    modified = s3.head_object(Bucket=bucket, Key="object")["LastModified"]
    # The header has whole seconds.
    assert before - timedelta(seconds=2) <= modified <= datetime.now(UTC) + timedelta(seconds=2)


def test_an_answer_tells_that_ranges_can_be_had(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"object")
    assert s3.head_object(Bucket=bucket, Key="object")["AcceptRanges"] == "bytes"


def test_every_answer_has_a_request_number(s3, bucket):
    seen = {s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["RequestId"] for _ in range(3)}
    assert len(seen) == 3 and all(seen)


def test_an_error_is_xml_with_a_request_number(wire, bucket):
    reply = wire.send("GET", f"/{bucket}/nothing")
    assert (reply.status, reply.code) == (404, "NoSuchKey")
    assert reply.headers["content-type"] == "application/xml"
    assert reply.headers["x-amz-request-id"].encode() in reply.body


def test_the_head_of_a_missing_object_has_no_body(wire, bucket):
    reply = wire.send("HEAD", f"/{bucket}/nothing")
    assert (reply.status, reply.body) == (404, b"")


SYSTEM = {
    "CacheControl": "public, max-age=14400",
    "ContentDisposition": 'attachment; filename="a b.txt"',
    "ContentEncoding": "gzip",
    "ContentLanguage": "rm, de-CH",
    "ContentType": "text/plain; charset=utf-8",
    "WebsiteRedirectLocation": "/elsewhere",
}


@pytest.mark.parametrize("call", ["get_object", "head_object"])
def test_system_metadata_comes_back_as_given(s3, bucket, call):
    expires = datetime(2035, 1, 2, 3, 4, 5, tzinfo=UTC)
    s3.put_object(Bucket=bucket, Key="object", Body=b"object", Expires=expires, **SYSTEM)
    answer = getattr(s3, call)(Bucket=bucket, Key="object")
    assert {name: answer[name] for name in SYSTEM} == SYSTEM
    assert answer["ExpiresString"] == "Tue, 02 Jan 2035 03:04:05 GMT"


def test_without_a_content_type_it_is_octets(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"object")
    assert s3.head_object(Bucket=bucket, Key="object")["ContentType"] == "binary/octet-stream"


def test_user_metadata_comes_back_with_names_in_lower_case(s3, bucket):
    given = {"plain": "value", "Mixed-Case": "Value With  Two Spaces", "empty": "", "x.y_z": "!#$%&'*+-.^_`|~:,;=/?@[]{}()<>\"\\"}
    s3.put_object(Bucket=bucket, Key="object", Body=b"object", Metadata=given)
    for answer in (s3.head_object(Bucket=bucket, Key="object"), s3.get_object(Bucket=bucket, Key="object")):
        assert answer["Metadata"] == {name.lower(): value for name, value in given.items()} | {
            "mixed-case": answer["Metadata"]["mixed-case"]
        }
        # Signing folds spaces, and what stands between client and server may too.
        assert " ".join(answer["Metadata"]["mixed-case"].split()) == "Value With Two Spaces"


def test_user_metadata_of_two_kilobytes_is_accepted_and_more_is_not(s3, bucket):
    # AWS doesn't say whether the prefix of the names counts: here it fits with it, below it doesn't even without.
    s3.put_object(Bucket=bucket, Key="full", Body=b"", Metadata={"half": "x" * 1009, "rest": "y" * 1009})
    assert len(s3.head_object(Bucket=bucket, Key="full")["Metadata"]["rest"]) == 1009
    with refused("MetadataTooLarge", 400):
        s3.put_object(Bucket=bucket, Key="over", Body=b"", Metadata={"half": "x" * 1020, "rest": "y" * 1021})
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="over")


def test_empty_user_metadata_is_kept(wire, s3, bucket):
    # As header values may be, and as S3 keeps them.
    assert wire.send("PUT", f"/{bucket}/object", {"x-amz-meta-empty": "", "x-amz-meta-full": "moon"}, b"object").status == 200
    assert s3.head_object(Bucket=bucket, Key="object")["Metadata"] == {"empty": "", "full": "moon"}
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "object"})
    assert s3.get_object(Bucket=bucket, Key="copy")["Metadata"] == {"empty": "", "full": "moon"}


def test_user_metadata_has_room_for_many_short_entries(s3, bucket):
    # The client reads no more than 100 headers.
    given = {f"n{index:03}": f"{index}" for index in range(75)}
    s3.put_object(Bucket=bucket, Key="object", Body=b"", Metadata=given)
    assert s3.head_object(Bucket=bucket, Key="object")["Metadata"] == given


OVERRIDES = {
    "ResponseCacheControl": ("CacheControl", "no-cache"),
    "ResponseContentDisposition": ("ContentDisposition", "attachment; filename=other"),
    "ResponseContentEncoding": ("ContentEncoding", "br"),
    "ResponseContentLanguage": ("ContentLanguage", "eo"),
    "ResponseContentType": ("ContentType", "foo/bar"),
}


@pytest.mark.parametrize("call", ["get_object", "head_object"])
def test_a_request_overrides_what_the_answer_says_and_nothing_else(s3, bucket, call):
    s3.put_object(Bucket=bucket, Key="object", Body=b"object", **SYSTEM)
    wanted = {name: value for name, (_, value) in OVERRIDES.items()}
    answer = getattr(s3, call)(Bucket=bucket, Key="object", ResponseExpires=datetime(2031, 2, 3, tzinfo=UTC), **wanted)
    assert {name: answer[name] for name, _ in OVERRIDES.values()} == dict(OVERRIDES.values())
    assert answer["ExpiresString"] == "Mon, 03 Feb 2031 00:00:00 GMT"
    assert s3.head_object(Bucket=bucket, Key="object")["ContentType"] == SYSTEM["ContentType"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_a_request_wants_as_expires_need_not_be_a_time(s3, wire, bucket, method):
    s3.put_object(Bucket=bucket, Key="object", Body=b"object", Expires=datetime(2031, 2, 3, tzinfo=UTC))
    for wanted in ("0", "never", "Sun, 03 Feb 2031 00:00:00 GMT"):
        reply = wire.send(method, f"/{bucket}/object?response-cache-control=no-cache&response-expires={quote(wanted, safe='')}")
        found = (reply.status, reply.headers.get("expires"), reply.headers.get("cache-control"))
        assert found == (200, wanted, "no-cache")
    assert wire.send("GET", f"/{bucket}/object").headers["expires"] == "Mon, 03 Feb 2031 00:00:00 GMT"


def test_an_anonymous_request_overrides_nothing(wire, bucket):
    reply = wire.send("GET", f"/{bucket}/object?response-content-type=text%2Fhtml", anonymous=True)
    assert (reply.status, reply.code) in [(400, "InvalidRequest"), (403, "AccessDenied")]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_anonymous_request_of_what_everybody_may_read_overrides_nothing_either(s3, wire, bucket, method):
    s3.put_object(Bucket=bucket, Key="object", Body=b"object")
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [everybody]}))
    assert wire.send(method, f"/{bucket}/object", anonymous=True).status == 200
    reply = wire.send(method, f"/{bucket}/object?response-content-type=text%2Fhtml", anonymous=True)
    assert reply.status == 400 and (method == "HEAD" or reply.code == "InvalidRequest")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("override", ["content-type=%0D%0AX%3Ay", "cache-control=%00", "content-language=%0A", "content-disposition=%7F", "expires=%0A"])
def test_what_can_be_no_header_is_no_override(s3, wire, bucket, method, override):
    s3.put_object(Bucket=bucket, Key="object", Body=b"object")
    reply = wire.send(method, f"/{bucket}/object?response-{override}")
    assert reply.status == 400 and (method == "HEAD" or reply.code == "InvalidArgument")


def test_a_right_content_md5_is_accepted(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"object", ContentMD5=content_md5(b"object"))
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"object"


def test_a_wrong_content_md5_stores_nothing(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"kept")
    with refused("BadDigest", 400):
        s3.put_object(Bucket=bucket, Key="object", Body=b"object", ContentMD5=content_md5(b"another"))
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"kept"


@pytest.mark.parametrize("digest", ["", "short", "AAAA", "not base64 at all!!!!!!!=", content_md5(b"object") + "AAAA"])
def test_a_content_md5_that_is_none_is_refused(wire, bucket, digest):
    reply = wire.send("PUT", f"/{bucket}/object", {"Content-MD5": digest}, b"object")
    assert (reply.status, reply.code) == (400, "InvalidDigest")
    assert wire.send("HEAD", f"/{bucket}/object").status == 404


def test_a_put_without_a_length_is_refused(wire, bucket):
    def without(fields):
        del fields["Content-Length"]

    reply = wire.send("PUT", f"/{bucket}/object", payload=UNSIGNED, tamper=without)
    # Without a length and without chunks HTTP says that the body is empty; AWS wants it said.
    assert (reply.status, reply.code) in [(411, "MissingContentLength"), (200, None)]
    reply = wire.send("PUT", f"/{bucket}/negative", {"Content-Length": "-1"}, payload=UNSIGNED)
    assert reply.status == 400
    assert wire.send("HEAD", f"/{bucket}/negative").status == 404


def test_a_put_of_more_than_five_gigabytes_is_refused_before_it_is_sent(wire, bucket):
    fields = {"Content-Length": str(5 * 2**30 + 1), "Expect": "100-continue"}
    reply = wire.send("PUT", f"/{bucket}/object", fields, payload=UNSIGNED)
    assert (reply.status, reply.code) == (400, "EntityTooLarge")


def test_a_client_that_waits_for_leave_to_send_gets_it(s3, wire, bucket):
    reply = wire.send("PUT", f"/{bucket}/object", {"Expect": "100-continue"}, b"object")
    assert reply.status == 200
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"object"


def test_a_body_is_read_with_plain_chunks_or_refused(wire, bucket):
    """Chunks of HTTP itself, without those of AWS: the length is not known before."""
    reply = wire.send("PUT", f"/{bucket}/object", {"Transfer-Encoding": "chunked"}, b"6\r\nobject\r\n0\r\n\r\n", payload=UNSIGNED)
    assert (reply.status, reply.code) in [(200, None), (411, "MissingContentLength"), (501, "NotImplemented")]
    if reply.status == 200:
        assert wire.send("GET", f"/{bucket}/object").body == b"object"


def test_a_wrong_sha256_of_the_payload_stores_nothing(wire, bucket):
    reply = wire.send("PUT", f"/{bucket}/object", body=b"object", payload="0" * 64)
    assert (reply.status, reply.code) == (400, "XAmzContentSHA256Mismatch")
    assert wire.send("HEAD", f"/{bucket}/object").status == 404


def test_a_method_that_does_not_fit_is_refused(wire, bucket):
    reply = wire.send("POST", f"/{bucket}/object", body=b"")
    assert (reply.status, reply.code) in [
        (405, "MethodNotAllowed"),
        (400, "InvalidRequest"),
        (501, "NotImplemented"),
        (412, "PreconditionFailed"),
    ]


def test_many_objects_put_at_once_are_all_there(s3, bucket):
    bodies = {f"object-{index:03}": os.urandom(index * 37) for index in range(64)}
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda item: s3.put_object(Bucket=bucket, Key=item[0], Body=item[1]), bodies.items()))
        found = dict(zip(bodies, pool.map(lambda key: s3.get_object(Bucket=bucket, Key=key)["Body"].read(), bodies)))
    assert found == bodies


def test_of_puts_to_one_key_at_once_one_is_whole(s3, bucket):
    bodies = [bytes([index]) * 100_000 for index in range(16)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda body: s3.put_object(Bucket=bucket, Key="object", Body=body), bodies))
    got = s3.get_object(Bucket=bucket, Key="object")
    body = got["Body"].read()
    assert body in bodies and got["ETag"] == etag(body)


def test_a_version_number_that_is_none_is_refused(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"object")
    with refused("InvalidArgument", 400):
        s3.get_object(Bucket=bucket, Key="object", VersionId="no-version-looks-like-this")


@pytest.mark.parametrize("expires", ["0", "-1", "never", "Mon, 02 Jan 2035 03:04:05 GMT", "Tue, 02 Jan 2035 03:04:05 GMT"])
def test_expires_comes_back_as_it_was_sent(s3, wire, bucket, expires):
    """A number, words, even a date with the wrong day of the week."""
    assert wire.send("PUT", f"/{bucket}/object", {"Expires": expires}, b"body").status == 200
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/object")
    begun = wire.send("POST", f"/{bucket}/parts?uploads", {"Expires": expires})
    upload = begun.body.split(b"<UploadId>")[1].split(b"</UploadId>")[0].decode()
    part = s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"body")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload=parts)
    for key in ("object", "copy", "parts"):
        for method in ("GET", "HEAD"):
            assert wire.send(method, f"/{bucket}/{key}").headers["expires"] == expires, (method, key)


@pytest.mark.parametrize("encoding", ["deflate, gzip", "deflate,gzip", "gzip"])
def test_an_encoding_comes_back_as_it_was_sent(s3, bucket, encoding):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body", ContentEncoding=encoding)
    assert s3.head_object(Bucket=bucket, Key="object")["ContentEncoding"] == encoding


def test_metadata_in_several_headers_are_joined(s3, wire, bucket):
    signed = wire.seal("PUT", f"/{bucket}/object", {"Content-Length": "4", "x-amz-meta-k": "one,two"}, UNSIGNED, wire.signer())
    lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items()).replace("x-amz-meta-k: one,two", "x-amz-meta-k: one\r\nx-amz-meta-k: two")
    reply = wire.exchange(f"PUT /{bucket}/object HTTP/1.1\r\n{lines}Connection: close\r\n\r\nbody".encode(), method="PUT")
    assert reply.status == 200, reply.body
    assert s3.head_object(Bucket=bucket, Key="object")["Metadata"] == {"k": "one,two"}
