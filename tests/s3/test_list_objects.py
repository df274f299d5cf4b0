"""ListObjects and ListObjectsV2: order, prefixes, delimiters and pages."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from digests import etag
from serving import connect
from wire import refused, status

TREE = ["a.txt", "b/1", "b/2", "b/c/3", "b/c/4", "d/e", "f", "g/", "g/h"]
BOTH = pytest.mark.parametrize("call", ["list_objects", "list_objects_v2"])


@pytest.fixture
def tree(s3, bucket) -> str:
    for key in TREE:
        s3.put_object(Bucket=bucket, Key=key, Body=b"" if key.endswith("/") else key.encode())
    return bucket


def keys(listing: dict) -> list[str]:
    return [entry["Key"] for entry in listing.get("Contents", [])]


def prefixes(listing: dict) -> list[str]:
    return [entry["Prefix"] for entry in listing.get("CommonPrefixes", [])]


def pages(s3, call: str, bucket: str, **settings) -> list[dict]:
    """All pages, following what each says of the next one."""
    found, position = [], {}
    for _ in range(100):
        page = getattr(s3, call)(Bucket=bucket, **settings, **position)
        found.append(page)
        if not page["IsTruncated"]:
            assert "NextMarker" not in page and "NextContinuationToken" not in page
            return found
        if call == "list_objects_v2":
            position = {"ContinuationToken": page["NextContinuationToken"]}
        else:
            # Without a delimiter the last key is the marker.
            position = {"Marker": page.get("NextMarker") or keys(page)[-1]}
    pytest.fail("the pages don't end")


@BOTH
def test_all_keys_come_in_order(s3, tree, call):
    listing = getattr(s3, call)(Bucket=tree)
    assert keys(listing) == TREE
    assert (listing["Name"], listing["Prefix"], listing["MaxKeys"], listing["IsTruncated"]) == (tree, "", 1000, False)


@BOTH
def test_an_entry_says_what_a_head_says(s3, tree, call):
    entry = getattr(s3, call)(Bucket=tree, Prefix="a.txt")["Contents"][0]
    head = s3.head_object(Bucket=tree, Key="a.txt")
    assert (entry["ETag"], entry["Size"], entry["StorageClass"]) == (etag(b"a.txt"), 5, "STANDARD")
    assert entry["LastModified"].replace(microsecond=0) == head["LastModified"]


@BOTH
def test_order_is_that_of_bytes(s3, bucket, call):
    # In UTF-16 the last two change places.
    names = ["!", "0", "A", "Z", "a", "a b", "a+b", "a/b", "a0", "z", "~", "é", "中", "\uffee", "🜁"]
    for key in reversed(names):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    assert names == sorted(names, key=str.encode)
    assert keys(getattr(s3, call)(Bucket=bucket)) == names
    assert [keys(page) for page in pages(s3, call, bucket, MaxKeys=4)] == [names[0:4], names[4:8], names[8:12], names[12:]]


PREFIXES = {
    "b": ["b/1", "b/2", "b/c/3", "b/c/4"],
    "b/": ["b/1", "b/2", "b/c/3", "b/c/4"],
    "b/c": ["b/c/3", "b/c/4"],
    "b/c/3": ["b/c/3"],
    "b/c/3/": [],
    "/": [],
    "z": [],
    "": TREE,
    "g/": ["g/", "g/h"],
    "%": [],
    "_": [],
    "*": [],
}


@BOTH
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_chooses_keys(s3, tree, call, prefix):
    listing = getattr(s3, call)(Bucket=tree, Prefix=prefix)
    assert keys(listing) == PREFIXES[prefix]
    assert listing["Prefix"] == prefix


DELIMITED = {
    ("", "/"): (["a.txt", "f"], ["b/", "d/", "g/"]),
    ("b/", "/"): (["b/1", "b/2"], ["b/c/"]),
    ("b", "/"): ([], ["b/"]),
    ("d/", "/"): (["d/e"], []),
    ("g/", "/"): (["g/", "g/h"], []),
    ("", "."): (["b/1", "b/2", "b/c/3", "b/c/4", "d/e", "f", "g/", "g/h"], ["a."]),
    ("", "/c/"): (["a.txt", "b/1", "b/2", "d/e", "f", "g/", "g/h"], ["b/c/"]),
    ("b/c", "c"): (["b/c/3", "b/c/4"], []),
    ("", "none"): (TREE, []),
    ("", ""): (TREE, []),
}


@BOTH
@pytest.mark.parametrize("case", DELIMITED, ids=[f"{prefix} by {delimiter}" for prefix, delimiter in DELIMITED])
def test_a_delimiter_rolls_keys_up(s3, tree, call, case):
    (prefix, delimiter), (found, rolled) = case, DELIMITED[case]
    listing = getattr(s3, call)(Bucket=tree, Prefix=prefix, Delimiter=delimiter)
    assert (keys(listing), prefixes(listing)) == (found, rolled)
    assert listing.get("Delimiter", "") == delimiter


@BOTH
def test_two_slashes_are_two_delimiters_or_one_of_two_characters(s3, bucket, call):
    for key in ("a//b", "a/c", "//d"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    assert prefixes(getattr(s3, call)(Bucket=bucket, Delimiter="/")) == ["/", "a/"]
    assert prefixes(getattr(s3, call)(Bucket=bucket, Delimiter="/", Prefix="a/")) == ["a//"]
    listing = getattr(s3, call)(Bucket=bucket, Delimiter="//")
    assert (keys(listing), prefixes(listing)) == (["a/c"], ["//", "a//"])


@BOTH
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
def test_pages_put_together_are_the_list(s3, tree, call, size):
    found = pages(s3, call, tree, MaxKeys=size)
    assert [key for page in found for key in keys(page)] == TREE
    assert all(len(keys(page)) == size for page in found[:-1])
    assert all(page["MaxKeys"] == size for page in found)


@BOTH
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_common_prefix_counts_as_one_entry_and_comes_once(s3, tree, call, size):
    found = pages(s3, call, tree, MaxKeys=size, Delimiter="/")
    assert [key for page in found for key in keys(page)] == ["a.txt", "f"]
    assert [prefix for page in found for prefix in prefixes(page)] == ["b/", "d/", "g/"]
    assert all(len(keys(page)) + len(prefixes(page)) == size for page in found[:-1])


@BOTH
def test_a_list_of_no_entries_ends_there(s3, tree, call):
    listing = getattr(s3, call)(Bucket=tree, MaxKeys=0)
    assert (keys(listing), listing["MaxKeys"], listing["IsTruncated"]) == ([], 0, False)


@BOTH
def test_more_than_1000_keys_are_never_on_one_page(s3, bucket, call):
    names = [f"{index:04}" for index in range(1005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=b""), names))
    found = pages(s3, call, bucket, MaxKeys=5000)
    assert [len(keys(page)) for page in found] == [1000, 5]
    assert [key for page in found for key in keys(page)] == names


@BOTH
@pytest.mark.parametrize("size", ["-1", "many", "1.5", "99999999999999999999"])
def test_a_number_of_keys_that_is_none_is_refused(wire, tree, call, size):
    version = "list-type=2&" if call == "list_objects_v2" else ""
    reply = wire.send("GET", f"/{tree}?{version}max-keys={size}")
    assert (reply.status, reply.code) == (400, "InvalidArgument")


AFTER = {"": TREE, "b/2": TREE[3:], "b/2x": TREE[3:], "b/c": TREE[3:], "a": TREE, "g/h": [], "zzz": [], " ": TREE}


@pytest.mark.parametrize("start", AFTER)
def test_a_list_begins_after_the_key_that_is_named(s3, tree, start):
    assert keys(s3.list_objects_v2(Bucket=tree, StartAfter=start)) == AFTER[start]
    listing = s3.list_objects(Bucket=tree, Marker=start)
    assert (keys(listing), listing["Marker"]) == (AFTER[start], start)


def test_a_marker_behind_all_of_a_common_prefix_skips_it(s3, tree):
    assert prefixes(s3.list_objects_v2(Bucket=tree, Delimiter="/", StartAfter="b/zzz")) == ["d/", "g/"]


def test_a_marker_that_is_a_common_prefix_skips_it(s3, tree):
    listing = s3.list_objects(Bucket=tree, Delimiter="/", Marker="b/")
    assert (keys(listing), prefixes(listing)) == (["f"], ["d/", "g/"])


def test_a_token_goes_before_a_start(s3, tree):
    token = s3.list_objects_v2(Bucket=tree, MaxKeys=2)["NextContinuationToken"]
    listing = s3.list_objects_v2(Bucket=tree, ContinuationToken=token, StartAfter="g/")
    assert keys(listing) == TREE[2:]
    assert listing["ContinuationToken"] == token


def test_a_token_that_is_none_is_refused(s3, tree):
    with refused("InvalidArgument", 400):
        s3.list_objects_v2(Bucket=tree, ContinuationToken="")
    with refused("InvalidArgument", 400):
        s3.list_objects_v2(Bucket=tree, ContinuationToken="no token of this server")


def test_a_token_holds_though_keys_come_and_go(s3, tree):
    token = s3.list_objects_v2(Bucket=tree, MaxKeys=3)["NextContinuationToken"]
    s3.delete_object(Bucket=tree, Key="b/2")
    s3.delete_object(Bucket=tree, Key="b/c/3")
    s3.put_object(Bucket=tree, Key="a", Body=b"before")
    s3.put_object(Bucket=tree, Key="e", Body=b"after")
    assert keys(s3.list_objects_v2(Bucket=tree, ContinuationToken=token)) == ["b/c/4", "d/e", "e", "f", "g/", "g/h"]


def test_the_number_of_keys_counts_keys_and_prefixes(s3, tree):
    assert s3.list_objects_v2(Bucket=tree)["KeyCount"] == len(TREE)
    assert s3.list_objects_v2(Bucket=tree, Delimiter="/")["KeyCount"] == 5
    assert s3.list_objects_v2(Bucket=tree, Delimiter="/", MaxKeys=2)["KeyCount"] == 2
    assert s3.list_objects_v2(Bucket=tree, Prefix="z")["KeyCount"] == 0


def test_owners_are_told_in_version_one_and_on_request(s3, tree):
    owner = s3.list_buckets()["Owner"]["ID"]
    assert {entry["Owner"]["ID"] for entry in s3.list_objects(Bucket=tree)["Contents"]} == {owner}
    assert {entry["Owner"]["ID"] for entry in s3.list_objects_v2(Bucket=tree, FetchOwner=True)["Contents"]} == {owner}
    assert not any("Owner" in entry for entry in s3.list_objects_v2(Bucket=tree)["Contents"])


@pytest.mark.parametrize("version", ["", "list-type=2&"])
def test_keys_are_escaped_where_that_is_asked_for(s3, wire, bucket, version):
    for key in ["a b/c+d%é", "new\nline", "x&y"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    query = f"{version}encoding-type=url"
    body = wire.send("GET", f"/{bucket}?{query}").body
    assert b"<EncodingType>url</EncodingType>" in body
    assert b"<Key>new%0Aline</Key>" in body and b"<Key>x%26y</Key>" in body
    # A space is `+` with AWS, and `%20` is read as the same.
    assert b"<Key>a+b/c%2Bd%25%C3%A9</Key>" in body or b"<Key>a%20b/c%2Bd%25%C3%A9</Key>" in body
    body = wire.send("GET", f"/{bucket}?{query}&prefix=a%20b&delimiter=%2F").body
    assert b"<Prefix>a+b/</Prefix>" in body or b"<Prefix>a%20b/</Prefix>" in body
    assert b"<Key>x&amp;y</Key>" in wire.send("GET", f"/{bucket}?{version}prefix=x").body


def test_an_encoding_that_is_none_is_refused(s3, bucket):
    with refused("InvalidArgument", 400):
        s3.list_objects_v2(Bucket=bucket, EncodingType="rot13")


@BOTH
def test_an_empty_bucket_lists_nothing(s3, bucket, call):
    listing = getattr(s3, call)(Bucket=bucket, Prefix="a", Delimiter="/")
    assert (keys(listing), prefixes(listing), listing["IsTruncated"]) == ([], [], False)


@BOTH
def test_deleted_objects_and_old_versions_are_not_listed(s3, versioned, call):
    for key in ["a/1", "a/2", "b/1"]:
        s3.put_object(Bucket=versioned, Key=key, Body=b"old")
        s3.put_object(Bucket=versioned, Key=key, Body=b"newer")
    s3.delete_object(Bucket=versioned, Key="a/1")
    s3.delete_object(Bucket=versioned, Key="b/1")
    listing = getattr(s3, call)(Bucket=versioned)
    assert [(entry["Key"], entry["Size"]) for entry in listing["Contents"]] == [("a/2", 5)]
    assert prefixes(getattr(s3, call)(Bucket=versioned, Delimiter="/")) == ["a/"]
    assert status(listing) == 200


NO_TEXT = [b"M\x80ller/old", b"a\xff/f1", b"a\xff/f2", b"a\x80/g", b"b\xff", b"b\xc3", b"w/\xff", b"z/i\xff"]
TEXT = ["Mé/valid", "Mü/valid", "a", "b", "bé", "plain", "z/i", "z0"]


@pytest.mark.parametrize("call", ["list_objects", "list_objects_v2", "list_object_versions"])
def test_names_that_are_no_text_are_left_out_and_hide_no_keys(own, tmp_path, call):
    folder = tmp_path / "files"
    for name in [*NO_TEXT, *(key.encode() for key in TEXT)]:
        path = os.fsencode(folder / "photos") + b"/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("moon")
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="photos")
    assert own.run("put", "photos", cwd=folder).returncode == 0
    with own:
        client = connect(own.server, own.account)
        rolled = ["Mé/", "Mü/", "a", "b", "bé", "plain", "z/", "z0"]
        for delimiter, expected in (({}, TEXT), ({"Delimiter": "/"}, rolled)):
            for size in (1, 2, 3, 1000):
                pages = client.get_paginator(call).paginate(Bucket="photos", PaginationConfig={"PageSize": size}, **delimiter)
                found, truncated = [], []
                for page in pages:
                    entries = [entry["Key"] for entry in page.get("Contents", page.get("Versions", []))]
                    entries += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
                    assert len(entries) <= size and len(truncated) < 20
                    found += entries
                    truncated.append(page["IsTruncated"])
                assert sorted(found) == sorted(expected), (delimiter, size)
                assert truncated[-1] is False


def test_a_page_is_never_said_to_be_larger_than_it_can_be(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"")
    for call in (s3.list_objects_v2, s3.list_objects, s3.list_object_versions):
        assert call(Bucket=bucket, MaxKeys=5000)["MaxKeys"] == 1000
