"""Versioning: off, enabled, suspended; delete markers and the version `null`."""

from __future__ import annotations

import pytest

from digests import etag
from wire import headers, refused, status


def put(s3, bucket: str, body: bytes, key: str = "object") -> str | None:
    return s3.put_object(Bucket=bucket, Key=key, Body=body).get("VersionId")


def content(s3, bucket: str, version: str | None = None) -> bytes:
    which = {"VersionId": version} if version else {}
    return s3.get_object(Bucket=bucket, Key="object", **which)["Body"].read()


def turn(s3, bucket: str, state: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": state})


def states(s3, bucket: str) -> list[tuple[str, bool]]:
    """The versions of all keys, and whether they are delete markers."""
    listing = s3.list_object_versions(Bucket=bucket)
    versions = [(entry["VersionId"], False) for entry in listing.get("Versions", [])]
    return sorted(versions + [(entry["VersionId"], True) for entry in listing.get("DeleteMarkers", [])])


def test_a_new_bucket_has_no_versioning(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    assert put(s3, bucket, b"body") is None
    assert content(s3, bucket, "null") == b"body"


@pytest.mark.parametrize("state", ["Enabled", "Suspended"])
def test_the_state_of_versioning_is_as_it_was_set(s3, bucket, state):
    turn(s3, bucket, state)
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == state


def test_a_state_that_is_none_is_refused(s3, bucket):
    for state in ("Disabled", "enabled", ""):
        with refused({"MalformedXML", "IllegalVersioningConfigurationException"}, 400):
            turn(s3, bucket, state)
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)


def test_nobody_else_changes_versioning(alt, bucket):
    with refused("AccessDenied", 403):
        turn(alt, bucket, "Enabled")


def test_every_put_makes_a_version_and_all_can_be_got(s3, versioned):
    bodies = {put(s3, versioned, body): body for body in (b"one", b"two", b"three")}
    assert len(bodies) == 3 and None not in bodies and "null" not in bodies
    assert content(s3, versioned) == b"three"
    for version, body in bodies.items():
        got = s3.get_object(Bucket=versioned, Key="object", VersionId=version)
        head = s3.head_object(Bucket=versioned, Key="object", VersionId=version)
        assert (got["Body"].read(), got["VersionId"], head["VersionId"], head["ETag"]) == (body, version, version, etag(body))


def test_the_latest_version_is_named_in_the_answer(s3, versioned):
    version = put(s3, versioned, b"body")
    assert s3.get_object(Bucket=versioned, Key="object")["VersionId"] == version
    assert s3.head_object(Bucket=versioned, Key="object")["VersionId"] == version


def test_versions_have_metadata_of_their_own(s3, versioned):
    one = s3.put_object(Bucket=versioned, Key="object", Body=b"", Metadata={"n": "1"}, ContentType="text/one")["VersionId"]
    two = s3.put_object(Bucket=versioned, Key="object", Body=b"", Metadata={"n": "2"})["VersionId"]
    assert s3.head_object(Bucket=versioned, Key="object", VersionId=one)["Metadata"] == {"n": "1"}
    assert s3.head_object(Bucket=versioned, Key="object", VersionId=one)["ContentType"] == "text/one"
    assert s3.head_object(Bucket=versioned, Key="object", VersionId=two)["Metadata"] == {"n": "2"}


def test_a_delete_hides_the_object_and_keeps_its_versions(s3, versioned):
    version = put(s3, versioned, b"body")
    deleted = s3.delete_object(Bucket=versioned, Key="object")
    assert status(deleted) == 204 and deleted["DeleteMarker"] and deleted["VersionId"] not in (version, None)
    with refused("NoSuchKey", 404) as caught:
        s3.get_object(Bucket=versioned, Key="object")
    assert headers(caught.value.response)["x-amz-delete-marker"] == "true"
    assert headers(caught.value.response)["x-amz-version-id"] == deleted["VersionId"]
    with refused("404", 404) as caught:
        s3.head_object(Bucket=versioned, Key="object")
    assert headers(caught.value.response)["x-amz-delete-marker"] == "true"
    assert content(s3, versioned, version) == b"body"


def test_a_marker_itself_cant_be_got(s3, versioned):
    put(s3, versioned, b"body")
    marker = s3.delete_object(Bucket=versioned, Key="object")["VersionId"]
    with refused("MethodNotAllowed", 405) as caught:
        s3.get_object(Bucket=versioned, Key="object", VersionId=marker)
    answer = headers(caught.value.response)
    assert answer["x-amz-delete-marker"] == "true" and "last-modified" in answer
    with refused("405", 405) as caught:
        s3.head_object(Bucket=versioned, Key="object", VersionId=marker)
    assert headers(caught.value.response)["x-amz-delete-marker"] == "true"


def test_deleting_the_marker_brings_the_object_back(s3, versioned):
    put(s3, versioned, b"body")
    marker = s3.delete_object(Bucket=versioned, Key="object")["VersionId"]
    answer = s3.delete_object(Bucket=versioned, Key="object", VersionId=marker)
    assert answer["DeleteMarker"] and answer["VersionId"] == marker
    assert content(s3, versioned) == b"body"


def test_every_delete_makes_a_marker_also_of_what_is_not_there(s3, versioned):
    markers = {s3.delete_object(Bucket=versioned, Key="object")["VersionId"] for _ in range(3)}
    assert len(markers) == 3
    assert states(s3, versioned) == sorted((marker, True) for marker in markers)


def test_a_put_over_a_marker_makes_the_object_anew(s3, versioned):
    one = put(s3, versioned, b"one")
    s3.delete_object(Bucket=versioned, Key="object")
    put(s3, versioned, b"two")
    assert (content(s3, versioned), content(s3, versioned, one)) == (b"two", b"one")


def test_deleting_the_latest_version_shows_the_one_before(s3, versioned):
    one, two, three = (put(s3, versioned, body) for body in (b"one", b"two", b"three"))
    answer = s3.delete_object(Bucket=versioned, Key="object", VersionId=three)
    assert answer["VersionId"] == three and not answer.get("DeleteMarker", False)
    assert content(s3, versioned) == b"two"
    with refused("NoSuchVersion", 404):
        content(s3, versioned, three)
    s3.delete_object(Bucket=versioned, Key="object", VersionId=one)
    assert content(s3, versioned) == b"two"
    s3.delete_object(Bucket=versioned, Key="object", VersionId=two)
    with refused("NoSuchKey", 404):
        content(s3, versioned)
    assert states(s3, versioned) == []


def test_a_version_that_is_deleted_already_is_deleted_without_complaint(s3, versioned):
    version = put(s3, versioned, b"one")
    put(s3, versioned, b"two")
    for _ in range(2):
        assert status(s3.delete_object(Bucket=versioned, Key="object", VersionId=version)) == 204
    assert content(s3, versioned) == b"two"


def test_a_version_of_another_object_is_none_of_this_one(s3, versioned):
    other = put(s3, versioned, b"other", "other")
    put(s3, versioned, b"body")
    with refused("NoSuchVersion", 404):
        content(s3, versioned, other)
    with refused("404", 404):
        s3.head_object(Bucket=versioned, Key="object", VersionId=other)


def test_an_empty_version_number_is_refused(wire, versioned):
    reply = wire.send("GET", f"/{versioned}/object?versionId=")
    assert (reply.status, reply.code) == (400, "InvalidArgument")


def test_what_was_there_before_versioning_becomes_the_version_null(s3, bucket):
    put(s3, bucket, b"before")
    turn(s3, bucket, "Enabled")
    version = put(s3, bucket, b"after")
    assert states(s3, bucket) == sorted([(version, False), ("null", False)])
    assert (content(s3, bucket, "null"), content(s3, bucket)) == (b"before", b"after")
    s3.delete_object(Bucket=bucket, Key="object")
    assert content(s3, bucket, "null") == b"before"


def test_suspended_versioning_keeps_versions_and_writes_over_null(s3, versioned):
    version = put(s3, versioned, b"version")
    turn(s3, versioned, "Suspended")
    for body in (b"null one", b"null two"):
        assert put(s3, versioned, body) is None
    assert states(s3, versioned) == sorted([(version, False), ("null", False)])
    assert (content(s3, versioned), content(s3, versioned, "null"), content(s3, versioned, version)) == (
        b"null two",
        b"null two",
        b"version",
    )


def test_suspended_versioning_makes_a_marker_null_that_replaces_the_version_null(s3, versioned):
    version = put(s3, versioned, b"version")
    turn(s3, versioned, "Suspended")
    put(s3, versioned, b"null")
    answer = s3.delete_object(Bucket=versioned, Key="object")
    assert answer["DeleteMarker"] and answer["VersionId"] == "null"
    assert states(s3, versioned) == sorted([(version, False), ("null", True)])
    with refused("NoSuchKey", 404):
        content(s3, versioned)
    s3.delete_object(Bucket=versioned, Key="object", VersionId="null")
    assert content(s3, versioned) == b"version"


def test_what_is_copied_or_uploaded_in_parts_while_versioning_is_suspended_is_the_version_null(s3, versioned):
    turn(s3, versioned, "Suspended")
    s3.put_object(Bucket=versioned, Key="source", Body=b"body")
    which = {"Bucket": versioned, "Key": "parts"}
    upload = s3.create_multipart_upload(**which)["UploadId"]
    tag = s3.upload_part(**which, UploadId=upload, PartNumber=1, Body=b"body")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    done = [s3.complete_multipart_upload(**which, UploadId=upload, MultipartUpload=parts) for _ in range(2)]
    copied = s3.copy_object(Bucket=versioned, Key="copy", CopySource=f"{versioned}/source")
    assert all("VersionId" not in answer for answer in [*done, copied])
    assert {s3.head_object(Bucket=versioned, Key=key)["VersionId"] for key in ("source", "parts", "copy")} == {"null"}


def test_enabling_again_leaves_null_where_it_is(s3, versioned):
    turn(s3, versioned, "Suspended")
    put(s3, versioned, b"null")
    turn(s3, versioned, "Enabled")
    version = put(s3, versioned, b"version")
    assert states(s3, versioned) == sorted([(version, False), ("null", False)])
    assert content(s3, versioned, "null") == b"null"
    s3.delete_object(Bucket=versioned, Key="object", VersionId="null")
    assert states(s3, versioned) == [(version, False)]


def test_many_versions_of_one_object_are_listed_from_the_last_to_the_first(s3, versioned):
    bodies = [f"{index}".encode() for index in range(30)]
    versions = [put(s3, versioned, body) for body in bodies]
    assert content(s3, versioned) == bodies[-1]
    listed = [entry["VersionId"] for entry in s3.list_object_versions(Bucket=versioned)["Versions"]]
    assert listed == versions[::-1]
