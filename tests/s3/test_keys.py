"""Keys: any 1,024 bytes of UTF-8 name an object, whatever a path would make of them."""

from __future__ import annotations

import pytest

from digests import etag
from wire import UNSIGNED, encode, refused

ODD = [
    "with space",
    " space at both ends ",
    "plus+plus",
    "percent%percent",
    "%41%2f%00",
    "100%",
    "a//b",
    "//",
    "/leading",
    "trailing/",
    "/",
    "//leading twice",
    ".",
    "..",
    "./a",
    "../a",
    "a/./b",
    "a/../b",
    "a/..",
    "../../../../etc/passwd",
    "~",
    "?query=1",
    "a?b#c",
    "#fragment",
    "a&b=c;d",
    "quotes\"'`",
    "<xml>&amp;</xml>",
    "]]>",
    "back\\slash",
    "colon:star*pipe|",
    "{curly}[square]^$@!,()",
    "ümläut",
    "u\u0308mla\u0308ut",
    "日本語/キー",
    "emoji 🜁🏺",
    "\u202eright to left",
    "zero\u200bwidth",
    "soupçon.TXT",
    "UPPER and lower",
    "tab\tand\nnew line",
    "carriage\rreturn",
    "\x01\x1f",
    "delete\x7f",
    "\u0085next line",
    "CON",
    "nul.txt",
    ".hidden",
    "a.lock",
    "x" * 255,
    "x" * 1024,
    "/".join(["y" * 3] * 256)[:1024],
    "é" * 512,
    "日" * 341,
    "🜁" * 256,
]


@pytest.mark.parametrize("key", ODD, ids=[ascii(key)[:40] for key in ODD])
def test_an_odd_key_names_an_object_like_any_other(s3, bucket, key):
    body = key.encode()
    s3.put_object(Bucket=bucket, Key=key, Body=body)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == body
    assert s3.head_object(Bucket=bucket, Key=key)["ETag"] == etag(body)
    for listing in (s3.list_objects_v2(Bucket=bucket), s3.list_objects(Bucket=bucket)):
        assert [entry["Key"] for entry in listing["Contents"]] == [key]
    assert [entry["Key"] for entry in s3.list_object_versions(Bucket=bucket)["Versions"]] == [key]
    s3.delete_object(Bucket=bucket, Key=key)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize(
    "one, other",
    [
        ("a/b", "a//b"),
        ("a", "/a"),
        ("a", "a/"),
        ("a b", "a+b"),
        ("a b", "a%20b"),
        ("a", "A"),
        ("\u00fc", "u\u0308"),
        ("b", "a/../b"),
        ("a", "./a"),
        ("a", "a\u200b"),
        ("a", "a "),
    ],
    ids=ascii,
)
def test_two_keys_that_look_alike_are_two_objects(s3, bucket, one, other):
    s3.put_object(Bucket=bucket, Key=one, Body=b"one")
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key=other)
    s3.put_object(Bucket=bucket, Key=other, Body=b"other")
    assert s3.get_object(Bucket=bucket, Key=one)["Body"].read() == b"one"
    assert s3.get_object(Bucket=bucket, Key=other)["Body"].read() == b"other"
    s3.delete_object(Bucket=bucket, Key=other)
    assert s3.get_object(Bucket=bucket, Key=one)["Body"].read() == b"one"


@pytest.mark.parametrize(
    "key", ["x" * 1025, "é" * 513, "日" * 342, "🜁" * 257, "x" * 5000], ids=["1,025", "1,026 of 2", "1,026 of 3", "1,028 of 4", "5,000"]
)
def test_a_key_of_more_than_1024_bytes_is_refused(s3, bucket, key):
    with refused("KeyTooLongError", 400):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    with refused("KeyTooLongError", 400):
        s3.create_multipart_upload(Bucket=bucket, Key=key)


@pytest.mark.parametrize(
    "escaped", ["%ff", "a%c3%28b", "%ed%a0%80", "%c0%af"], ids=["no lead byte", "no continuation", "surrogate", "overlong"]
)
def test_a_key_that_is_no_utf_8_is_refused(wire, bucket, escaped):
    reply = wire.send("PUT", f"/{bucket}/{escaped.upper()}", body=b"body")
    assert reply.status == 400 and reply.code in {"InvalidURI", "InvalidArgument", "InvalidRequest"}
    assert b"<Contents>" not in wire.send("GET", f"/{bucket}?list-type=2").body


def test_the_same_key_can_be_escaped_in_several_ways(wire, bucket):
    # The signature is over the canonical form, whichever one is sent.
    sealed = wire.seal("PUT", f"/{bucket}/a~b/%C3%A9", {"Content-Length": "4"}, UNSIGNED, wire.signer())
    assert wire.send("PUT", f"/{bucket}/%61%7Eb/%c3%a9", sealed, b"body", anonymous=True).status == 200
    assert "<Key>a~b/é</Key>".encode() in wire.send("GET", f"/{bucket}?list-type=2").body


def test_a_path_is_not_cleaned_on_the_way(wire, bucket):
    """Browsers and proxies resolve `..`; S3 takes it as it comes, and never leaves the bucket by it."""
    assert wire.send("PUT", f"/{bucket}/a/../../escape", body=b"body").status in (200, 400)
    assert b"escape" not in wire.send("GET", "/").body
    listing = wire.send("GET", f"/{bucket}?list-type=2")
    assert (b"<Key>a/../../escape</Key>" in listing.body) or b"<Contents>" not in listing.body


@pytest.mark.parametrize("key", ["a b", "a+b", "a%b", "ü/日本", "a//b", "../a"])
def test_an_odd_key_goes_through_copy_and_batch_delete(s3, bucket, key):
    s3.put_object(Bucket=bucket, Key=key, Body=b"body")
    s3.copy_object(Bucket=bucket, Key=f"{key} copy", CopySource={"Bucket": bucket, "Key": key})
    assert s3.get_object(Bucket=bucket, Key=f"{key} copy")["Body"].read() == b"body"
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}, {"Key": f"{key} copy"}]})
    assert sorted(entry["Key"] for entry in answer["Deleted"]) == sorted([key, f"{key} copy"])
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_key_in_a_copy_source_is_decoded_once(s3, wire, bucket):
    s3.put_object(Bucket=bucket, Key="a%2Fb", Body=b"escaped")
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"plain")
    reply = wire.send("PUT", f"/{bucket}/copy", {"x-amz-copy-source": f"/{bucket}/{encode('a%2Fb')}"})
    assert reply.status == 200
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == b"escaped"


def test_keys_with_control_characters_are_listed(s3, wire, bucket):
    """As references to their numbers, as AWS writes them; and encoded, as boto3 asks for them."""
    keys = ["a\x01b", "c\x1f", "d\re"]
    for key in keys:
        assert wire.send("PUT", f"/{bucket}/{encode(key)}", {}, b"body").status == 200
    for call, field in ((s3.list_objects_v2, "Contents"), (s3.list_objects, "Contents"), (s3.list_object_versions, "Versions")):
        assert [entry["Key"] for entry in call(Bucket=bucket)[field]] == keys
    body = wire.send("GET", f"/{bucket}?list-type=2").body
    assert [reference in body for reference in (b"a&#x1;b", b"c&#x1f;", b"d&#xd;e")] == [True] * 3
    for key in keys:
        assert wire.send("DELETE", f"/{bucket}/{encode(key)}").status == 204
