"""ListObjectVersions: every state of every key, the latest first, with delete markers among them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from digests import etag
from wire import refused


@pytest.fixture
def history(s3, versioned) -> list[tuple[str, str, str]]:
    """Key, version and kind of each state, as a list should have them."""
    found = []
    for key in ["a", "b/1", "b/2", "c"]:
        states = []
        for body in (b"first", b"second"):
            states.append((key, s3.put_object(Bucket=versioned, Key=key, Body=body)["VersionId"], "version"))
        if key in ("a", "b/2"):
            states.append((key, s3.delete_object(Bucket=versioned, Key=key)["VersionId"], "marker"))
        found += reversed(states)
    return found


def raw_order(wire, bucket: str, query: str = "") -> list[tuple[str, str, str]]:
    """botocore tears versions and markers apart; in the answer they stand in one order."""
    root = ElementTree.fromstring(wire.send("GET", f"/{bucket}?versions{query}").body)
    kinds = {"Version": "version", "DeleteMarker": "marker"}
    entries = [(element, element.tag.rpartition("}")[2]) for element in root]
    return [(e.findtext("{*}Key"), e.findtext("{*}VersionId"), kinds[name]) for e, name in entries if name in kinds]


def entries(listing: dict) -> set[tuple[str, str, str]]:
    versions = {(entry["Key"], entry["VersionId"], "version") for entry in listing.get("Versions", [])}
    return versions | {(entry["Key"], entry["VersionId"], "marker") for entry in listing.get("DeleteMarkers", [])}


def prefixes(listing: dict) -> list[str]:
    return [entry["Prefix"] for entry in listing.get("CommonPrefixes", [])]


def test_versions_and_markers_come_in_one_order_the_latest_first(wire, versioned, history):
    assert raw_order(wire, versioned) == history


def test_one_state_of_each_key_is_the_latest(s3, versioned, history):
    listing = s3.list_object_versions(Bucket=versioned)
    states = listing["Versions"] + listing["DeleteMarkers"]
    latest = {entry["Key"]: entry["VersionId"] for entry in states if entry["IsLatest"]}
    first = {}
    for key, version, _ in history:
        first.setdefault(key, version)
    assert latest == first
    assert sum(entry["IsLatest"] for entry in states) == 4


def test_an_entry_says_what_it_is(s3, versioned):
    version = s3.put_object(Bucket=versioned, Key="key", Body=b"body")["VersionId"]
    marker = s3.delete_object(Bucket=versioned, Key="key")["VersionId"]
    listing = s3.list_object_versions(Bucket=versioned)
    owner = s3.list_buckets()["Owner"]["ID"]
    (one,), (gone,) = listing["Versions"], listing["DeleteMarkers"]
    assert (one["VersionId"], one["ETag"], one["Size"], one["StorageClass"]) == (version, etag(b"body"), 4, "STANDARD")
    assert one["Owner"]["ID"] == gone["Owner"]["ID"] == owner
    assert gone["VersionId"] == marker and gone["LastModified"] and "Size" not in gone


def test_objects_of_a_bucket_without_versions_have_the_version_null(s3, bucket):
    s3.put_object(Bucket=bucket, Key="key", Body=b"body")
    (entry,) = s3.list_object_versions(Bucket=bucket)["Versions"]
    assert (entry["VersionId"], entry["IsLatest"]) == ("null", True)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_pages_put_together_are_the_list(s3, wire, versioned, history, size):
    found, position = [], {}
    for _ in range(len(history) + 1):
        page = s3.list_object_versions(Bucket=versioned, MaxKeys=size, **position)
        found.append(entries(page))
        if not page["IsTruncated"]:
            break
        position = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
    assert found == [set(history[start : start + size]) for start in range(0, len(history), size)]


def test_a_key_marker_alone_begins_after_all_versions_of_the_key(wire, versioned, history):
    assert raw_order(wire, versioned, "&key-marker=a") == [state for state in history if state[0] > "a"]
    assert raw_order(wire, versioned, "&key-marker=b%2F1") == [state for state in history if state[0] > "b/1"]


def test_a_version_marker_begins_after_that_version(wire, versioned, history):
    for index, (key, version, _) in enumerate(history):
        key = key.replace("/", "%2F")
        assert raw_order(wire, versioned, f"&key-marker={key}&version-id-marker={version}") == history[index + 1 :]


def test_a_version_marker_without_a_key_marker_is_refused(s3, versioned, history):
    with refused("InvalidArgument", 400):
        s3.list_object_versions(Bucket=versioned, VersionIdMarker=history[0][1])


def test_a_prefix_and_a_delimiter_work_as_for_objects(s3, versioned, history):
    listing = s3.list_object_versions(Bucket=versioned, Delimiter="/")
    assert entries(listing) == {state for state in history if "/" not in state[0]}
    assert prefixes(listing) == ["b/"]
    listing = s3.list_object_versions(Bucket=versioned, Prefix="b/")
    assert entries(listing) == {state for state in history if "/" in state[0]}


def test_a_common_prefix_counts_as_one_entry(s3, versioned, history):
    page = s3.list_object_versions(Bucket=versioned, Delimiter="/", MaxKeys=4)
    assert (len(entries(page)), prefixes(page), page["IsTruncated"]) == (3, ["b/"], True)
    page = s3.list_object_versions(Bucket=versioned, Delimiter="/", MaxKeys=4, KeyMarker=page["NextKeyMarker"])
    assert entries(page) == {state for state in history if state[0] == "c"}
    assert prefixes(page) == []


def test_a_prefix_of_nothing_but_markers_is_listed(s3, versioned):
    s3.delete_object(Bucket=versioned, Key="gone/1")
    assert prefixes(s3.list_object_versions(Bucket=versioned, Delimiter="/")) == ["gone/"]
    assert prefixes(s3.list_objects_v2(Bucket=versioned, Delimiter="/")) == []


def test_a_list_of_no_entries_ends_there(s3, versioned, history):
    page = s3.list_object_versions(Bucket=versioned, MaxKeys=0)
    assert not entries(page) and not page["IsTruncated"]
