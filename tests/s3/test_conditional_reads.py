"""Reads under conditions: 304 where the client's copy is good, 412 where the object is another than it expects."""

from __future__ import annotations

from datetime import timedelta

import pytest

from digests import etag
from wire import Reply, Wire, refused, status

BODY = b"the object"
TAG, OTHER = etag(BODY), etag(b"another")


@pytest.fixture
def modified(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=BODY, Metadata={"kept": "yes"}, CacheControl="max-age=60")
    return s3.head_object(Bucket=bucket, Key="object")["LastModified"]


def times(modified) -> dict:
    return {"before": modified - timedelta(hours=1), "same": modified, "after": modified + timedelta(seconds=1)}


CALLS = pytest.mark.parametrize("call", ["get_object", "head_object"])


@CALLS
@pytest.mark.parametrize("tag", [TAG, TAG.strip('"'), "*"], ids=["same", "unquoted", "any"])
def test_if_match_lets_the_object_through(s3, bucket, modified, call, tag):
    assert status(getattr(s3, call)(Bucket=bucket, Key="object", IfMatch=tag)) == 200


@CALLS
def test_if_match_refuses_another_object(s3, bucket, modified, call):
    with refused({"PreconditionFailed", "412"}, 412):
        getattr(s3, call)(Bucket=bucket, Key="object", IfMatch=OTHER)


@CALLS
@pytest.mark.parametrize("tag", [TAG, TAG.strip('"'), "*"], ids=["same", "unquoted", "any"])
def test_if_none_match_spares_what_the_client_has(s3, bucket, modified, call, tag):
    with refused("304", 304):
        getattr(s3, call)(Bucket=bucket, Key="object", IfNoneMatch=tag)


@CALLS
def test_if_none_match_lets_another_object_through(s3, bucket, modified, call):
    assert status(getattr(s3, call)(Bucket=bucket, Key="object", IfNoneMatch=OTHER)) == 200


@CALLS
@pytest.mark.parametrize("when, found", [("before", 200), ("same", 304)])
def test_if_modified_since_compares_whole_seconds(s3, bucket, modified, call, when, found):
    if found == 200:
        assert status(getattr(s3, call)(Bucket=bucket, Key="object", IfModifiedSince=times(modified)[when])) == 200
        return
    with refused("304", 304):
        getattr(s3, call)(Bucket=bucket, Key="object", IfModifiedSince=times(modified)[when])


@CALLS
@pytest.mark.parametrize("when, found", [("before", 412), ("same", 200), ("after", 200)])
def test_if_unmodified_since_compares_whole_seconds(s3, bucket, modified, call, when, found):
    if found == 200:
        assert status(getattr(s3, call)(Bucket=bucket, Key="object", IfUnmodifiedSince=times(modified)[when])) == 200
        return
    with refused({"PreconditionFailed", "412"}, 412):
        getattr(s3, call)(Bucket=bucket, Key="object", IfUnmodifiedSince=times(modified)[when])


# RFC 9110, section 13.2.2: tags come before times, and failures of what must hold before those of what may be spared.
COMBINED = {
    "tag holds, time doesn't": ({"IfMatch": TAG}, {"IfUnmodifiedSince": "before"}, 200),
    "tag doesn't, time holds": ({"IfMatch": OTHER}, {"IfUnmodifiedSince": "after"}, 412),
    "both hold": ({"IfMatch": TAG}, {"IfUnmodifiedSince": "after"}, 200),
    "has the tag, modified since": ({"IfNoneMatch": TAG}, {"IfModifiedSince": "before"}, 304),
    "has another tag, not modified since": ({"IfNoneMatch": OTHER}, {"IfModifiedSince": "same"}, 200),
    "has the tag, not modified since": ({"IfNoneMatch": TAG}, {"IfModifiedSince": "same"}, 304),
    "wants one tag and has it": ({"IfMatch": TAG, "IfNoneMatch": TAG}, {}, 304),
    "wants another and has this": ({"IfMatch": OTHER, "IfNoneMatch": TAG}, {}, 412),
    "unmodified and not modified": ({}, {"IfUnmodifiedSince": "same", "IfModifiedSince": "same"}, 304),
    "modified though it must not be": ({}, {"IfUnmodifiedSince": "before", "IfModifiedSince": "before"}, 412),
}


@CALLS
@pytest.mark.parametrize("case", COMBINED)
def test_conditions_together_have_an_order(s3, bucket, modified, call, case):
    tags, since, found = COMBINED[case]
    conditions = tags | {name: times(modified)[when] for name, when in since.items()}
    if found == 200:
        assert status(getattr(s3, call)(Bucket=bucket, Key="object", **conditions)) == 200
        return
    with refused({"304"} if found == 304 else {"PreconditionFailed", "412"}, found):
        getattr(s3, call)(Bucket=bucket, Key="object", **conditions)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_304_has_the_tag_and_no_body(wire: Wire, bucket, modified, method):
    reply: Reply = wire.send(method, f"/{bucket}/object", {"If-None-Match": TAG})
    assert (reply.status, reply.body) == (304, b"")
    assert reply.headers["etag"] == TAG
    assert "last-modified" in reply.headers


def test_a_time_that_is_none_is_no_condition(wire: Wire, bucket, modified):
    for name in ("If-Modified-Since", "If-Unmodified-Since"):
        reply = wire.send("GET", f"/{bucket}/object", {name: "the day before yesterday"})
        assert (reply.status, reply.body) == (200, BODY)


def test_conditions_and_a_range_go_together(s3, bucket, modified):
    assert s3.get_object(Bucket=bucket, Key="object", IfMatch=TAG, Range="bytes=0-2")["Body"].read() == b"the"
    with refused("PreconditionFailed", 412):
        s3.get_object(Bucket=bucket, Key="object", IfMatch=OTHER, Range="bytes=0-2")
    with refused("304", 304):
        s3.get_object(Bucket=bucket, Key="object", IfNoneMatch=TAG, Range="bytes=0-2")


def test_a_condition_on_nothing_is_not_found(s3, bucket):
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="nothing", IfMatch="*")
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="nothing", IfNoneMatch="*")


def test_a_condition_is_about_the_version_that_is_asked_for(s3, versioned):
    first = s3.put_object(Bucket=versioned, Key="object", Body=b"first")
    s3.put_object(Bucket=versioned, Key="object", Body=b"second")
    with refused("PreconditionFailed", 412):
        s3.get_object(Bucket=versioned, Key="object", IfMatch=first["ETag"])
    got = s3.get_object(Bucket=versioned, Key="object", IfMatch=first["ETag"], VersionId=first["VersionId"])
    assert got["Body"].read() == b"first"


@CALLS
@pytest.mark.parametrize("tags", [f"{OTHER}, {TAG}", f"{TAG},{OTHER}", f"unquoted_with.others, {TAG}"])
def test_conditions_are_lists_of_tags(s3, bucket, modified, call, tags):
    assert status(getattr(s3, call)(Bucket=bucket, Key="object", IfMatch=tags)) == 200
    with refused("304", 304):
        getattr(s3, call)(Bucket=bucket, Key="object", IfNoneMatch=tags)


def test_a_list_of_other_tags_is_not_the_object(wire: Wire, bucket, modified):
    for tags in (f'{OTHER}, "third"', "with_underline", "with.dot", '"with,comma"'):
        assert wire.send("GET", f"/{bucket}/object", {"If-Match": tags}).code == "PreconditionFailed", tags
        assert wire.send("GET", f"/{bucket}/object", {"If-None-Match": tags}).body == BODY, tags


def test_a_range_is_sent_only_of_the_object_that_the_client_has_begun(wire: Wire, s3, bucket, modified):
    """Otherwise a client that goes on with a download would join parts of two objects."""
    date = modified.strftime("%a, %d %b %Y %H:%M:%S GMT")
    part = {"Range": "bytes=4-"}
    reply = wire.send("GET", f"/{bucket}/object", part | {"If-Range": TAG})
    assert (reply.status, reply.body) == (206, BODY[4:])
    earlier = (modified - timedelta(seconds=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    later = (modified + timedelta(days=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    for other in (OTHER, f"W/{TAG}", date, earlier, later, "yesterday", ""):
        reply = wire.send("GET", f"/{bucket}/object", part | {"If-Range": other})
        assert (reply.status, reply.body) == (200, BODY), other
    s3.put_object(Bucket=bucket, Key="object", Body=b"something else")
    reply = wire.send("GET", f"/{bucket}/object", part | {"If-Range": TAG})
    assert (reply.status, reply.body) == (200, b"something else")
    assert wire.send("GET", f"/{bucket}/object", {"Range": "bytes=99-", "If-Range": TAG}).status == 200
    assert "content-range" not in wire.send("HEAD", f"/{bucket}/object", part | {"If-Range": TAG}).headers
