"""Deleting: one object, and up to 1,000 in a batch."""

from __future__ import annotations

import hashlib

import pytest

from digests import content_md5
from wire import headers, refused, status


def keys(s3, bucket: str) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def fill(s3, bucket: str, names: list[str]) -> None:
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=name.encode())


def batch(names: list[str], **settings) -> dict:
    return {"Objects": [{"Key": name} for name in names], **settings}


def test_a_deleted_object_is_gone_and_the_others_stay(s3, bucket):
    fill(s3, bucket, ["a", "a/b", "a/b/c", "ab"])
    answer = s3.delete_object(Bucket=bucket, Key="a")
    assert status(answer) == 204 and "x-amz-delete-marker" not in headers(answer)
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="a")
    assert keys(s3, bucket) == ["a/b", "a/b/c", "ab"]


def test_what_is_not_there_is_deleted_without_complaint(s3, bucket):
    assert status(s3.delete_object(Bucket=bucket, Key="nothing")) == 204
    assert status(s3.delete_object(Bucket=bucket, Key="nothing/at/all")) == 204


def test_a_deleted_object_can_be_put_again(s3, bucket):
    fill(s3, bucket, ["object"])
    s3.delete_object(Bucket=bucket, Key="object")
    s3.put_object(Bucket=bucket, Key="object", Body=b"new")
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"new"


def test_a_version_of_another_object_is_none_of_this_one(s3, versioned):
    other = s3.put_object(Bucket=versioned, Key="other", Body=b"other")["VersionId"]
    s3.put_object(Bucket=versioned, Key="object", Body=b"object")
    assert status(s3.delete_object(Bucket=versioned, Key="object", VersionId=other)) == 204
    assert keys(s3, versioned) == ["object", "other"]


def test_a_batch_deletes_all_and_says_so(s3, bucket):
    names = [f"key {index}" for index in range(10)]
    fill(s3, bucket, [*names, "kept"])
    answer = s3.delete_objects(Bucket=bucket, Delete=batch(names))
    assert status(answer) == 200
    assert sorted(entry["Key"] for entry in answer["Deleted"]) == sorted(names)
    assert "Errors" not in answer
    assert keys(s3, bucket) == ["kept"]


def test_a_quiet_batch_says_only_what_went_wrong(s3, bucket):
    fill(s3, bucket, ["a", "b"])
    answer = s3.delete_objects(Bucket=bucket, Delete=batch(["a", "b"], Quiet=True))
    assert "Deleted" not in answer and "Errors" not in answer
    assert keys(s3, bucket) == []


def test_missing_keys_and_keys_named_twice_count_as_deleted(s3, bucket):
    fill(s3, bucket, ["there"])
    answer = s3.delete_objects(Bucket=bucket, Delete=batch(["there", "missing", "there"]))
    assert {entry["Key"] for entry in answer["Deleted"]} == {"there", "missing"}
    assert "Errors" not in answer


def test_a_batch_of_1000_is_deleted(s3, bucket):
    names = [f"{index:04}" for index in range(1000)]
    fill(s3, bucket, names[::20])
    answer = s3.delete_objects(Bucket=bucket, Delete=batch(names))
    assert len(answer["Deleted"]) == 1000
    assert keys(s3, bucket) == []


def test_a_batch_of_1001_is_refused_and_deletes_nothing(s3, bucket):
    fill(s3, bucket, ["0000"])
    with refused("MalformedXML", 400):
        s3.delete_objects(Bucket=bucket, Delete=batch([f"{index:04}" for index in range(1001)]))
    assert keys(s3, bucket) == ["0000"]


def test_a_batch_in_a_versioned_bucket_makes_markers(s3, versioned):
    fill(s3, versioned, ["a"])
    answer = s3.delete_objects(Bucket=versioned, Delete=batch(["a", "nothing"]))
    deleted = {entry["Key"]: entry for entry in answer["Deleted"]}
    assert all(entry["DeleteMarker"] and entry["DeleteMarkerVersionId"] for entry in deleted.values())
    listing = s3.list_object_versions(Bucket=versioned)
    assert [entry["Key"] for entry in listing["Versions"]] == ["a"]
    assert [entry["Key"] for entry in listing["DeleteMarkers"]] == ["a", "nothing"]


def test_a_batch_deletes_versions_and_markers(s3, versioned):
    version = s3.put_object(Bucket=versioned, Key="a", Body=b"a")["VersionId"]
    marker = s3.delete_object(Bucket=versioned, Key="a")["VersionId"]
    objects = [{"Key": "a", "VersionId": version}, {"Key": "a", "VersionId": marker}]
    answer = s3.delete_objects(Bucket=versioned, Delete={"Objects": objects})
    deleted = {entry["VersionId"]: entry for entry in answer["Deleted"]}
    assert set(deleted) == {version, marker}
    assert deleted[marker]["DeleteMarker"] and deleted[marker]["DeleteMarkerVersionId"] == marker
    assert not deleted[version].get("DeleteMarker", False)
    listing = s3.list_object_versions(Bucket=versioned)
    assert "Versions" not in listing and "DeleteMarkers" not in listing


def test_a_version_that_is_none_is_an_error_of_its_key_alone(s3, versioned):
    fill(s3, versioned, ["a", "b"])
    objects = [{"Key": "a", "VersionId": "no-version-looks-like-this"}, {"Key": "b"}]
    answer = s3.delete_objects(Bucket=versioned, Delete={"Objects": objects})
    assert [(entry["Key"], entry["Code"]) for entry in answer["Errors"]] in ([("a", "NoSuchVersion")], [("a", "InvalidArgument")])
    assert [entry["Key"] for entry in answer["Deleted"]] == ["b"]


def send(wire, bucket: str, body: bytes, **fields):
    fields = fields or {"Content-MD5": content_md5(body)}
    return wire.send("POST", f"/{bucket}?delete", fields, body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"delete a",
        b"<Delete>",
        b"<Delete></Delete>",
        b"<Delete><Object></Object></Delete>",
        b"<Delete><Object><Key></Key></Object></Delete>",
        b"<Delete><Object><Key>a</Key></Object>",
        b"<Delete><Object><Key>a</Object></Key></Delete>",
        b"<Remove><Object><Key>a</Key></Object></Remove>",
        b"<Delete><Object><Key>\xff</Key></Object></Delete>",
        b"<Delete><Object><Key>&nothing;</Key></Object></Delete>",
        b"<Delete><Quiet>perhaps</Quiet><Object><Key>a</Key></Object></Delete>",
    ],
    ids=[
        "empty",
        "text",
        "open",
        "no object",
        "no key",
        "empty key",
        "cut off",
        "crossed",
        "other root",
        "no utf-8",
        "unknown entity",
        "no boolean",
    ],
)
def test_a_batch_that_is_no_xml_or_another_is_refused(s3, wire, bucket, body):
    fill(s3, bucket, ["a"])
    reply = send(wire, bucket, body)
    assert reply.status == 400 and reply.code in {"MalformedXML", "UserKeyMustBeSpecified", "MissingRequestBodyError"}
    assert keys(s3, bucket) == ["a"]


@pytest.mark.parametrize("namespace", ["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'], ids=["without", "with"])
def test_a_batch_is_read_with_and_without_its_namespace(s3, wire, bucket, namespace):
    fill(s3, bucket, ["a&b", "<c>"])
    objects = "<Object><Key>a&amp;b</Key></Object>\n  <Object><Key>&#60;c&gt;</Key></Object>"
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Delete{namespace}>\n  {objects}\n</Delete>'
    assert send(wire, bucket, body.encode()).status == 200
    assert keys(s3, bucket) == []


def test_a_batch_without_a_digest_is_refused(s3, wire, bucket):
    fill(s3, bucket, ["a"])
    reply = send(wire, bucket, b"<Delete><Object><Key>a</Key></Object></Delete>", Accept="*/*")
    assert (reply.status, reply.code) == (400, "InvalidRequest")
    assert keys(s3, bucket) == ["a"]


def test_a_batch_with_a_wrong_digest_is_refused(s3, wire, bucket):
    fill(s3, bucket, ["a"])
    body = b"<Delete><Object><Key>a</Key></Object></Delete>"
    reply = send(wire, bucket, body, **{"Content-MD5": content_md5(b"another")})
    assert (reply.status, reply.code) == (400, "BadDigest")
    assert keys(s3, bucket) == ["a"]


def test_a_batch_without_its_digest_or_with_a_wrong_one_deletes_nothing_however_it_is_spelt(s3, wire, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    body = b"<Delete><Object><Key>a</Key></Object></Delete>"
    for query, canonical in (("delete", "delete="), ("%64elete", "delete="), ("delete=1", "delete=1"), ("delet%65=1", "delete=1")):

        def send(payload: str, query: str = query, canonical: str = canonical, **fields: str):
            sealed = wire.seal("POST", f"/{bucket}?{canonical}", fields, payload, wire.signer())
            return wire.send("POST", f"/{bucket}?{query}", sealed, body, anonymous=True)

        right, wrong = hashlib.sha256(body).hexdigest(), hashlib.sha256(b"other").hexdigest()
        assert (send(right).status, send(right).code) == (400, "InvalidRequest"), query
        digest = {"Content-MD5": content_md5(body)}
        reply = send(wrong, **digest)
        assert (reply.status, reply.code) == (400, "XAmzContentSHA256Mismatch"), query
        assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"a"
        assert send(right, **digest).status == 200, query
        with refused("NoSuchKey", 404):
            s3.get_object(Bucket=bucket, Key="a")
        s3.put_object(Bucket=bucket, Key="a", Body=b"a")
