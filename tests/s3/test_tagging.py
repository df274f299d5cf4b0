"""Tags: of objects, of their versions and of buckets."""

from __future__ import annotations

import pytest

from digests import content_md5
from wire import refused, status


def tag_set(tags: dict[str, str]) -> dict:
    return {"TagSet": [{"Key": key, "Value": value} for key, value in tags.items()]}


class OfObject:
    def __init__(self, s3, bucket: str):
        self.s3, self.which = s3, {"Bucket": bucket, "Key": "object"}
        s3.put_object(**self.which, Body=b"body")

    def put(self, tags: dict):
        return self.s3.put_object_tagging(**self.which, Tagging=tags)

    def read(self) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in self.s3.get_object_tagging(**self.which)["TagSet"]}

    def delete(self):
        return self.s3.delete_object_tagging(**self.which)


class OfBucket:
    def __init__(self, s3, bucket: str):
        self.s3, self.which = s3, {"Bucket": bucket}

    def put(self, tags: dict):
        return self.s3.put_bucket_tagging(**self.which, Tagging=tags)

    def read(self) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in self.s3.get_bucket_tagging(**self.which)["TagSet"]}

    def delete(self):
        return self.s3.delete_bucket_tagging(**self.which)


@pytest.fixture(params=[OfObject, OfBucket], ids=["object", "bucket"])
def tagged(request, s3, bucket):
    return request.param(s3, bucket)


@pytest.mark.parametrize(
    "tags",
    [
        {"one": "1"},
        {"empty": ""},
        {"letters äöü 日本": "spaces and + - = . _ : / @"},
        {"k" * 128: "v" * 256},
        {"é" * 128: "日" * 256},
        {"Case": "1", "case": "2"},
    ],
    ids=["one", "empty value", "odd", "long", "long in characters", "case"],
)
def test_tags_come_back_as_given(tagged, tags):
    tagged.put(tag_set(tags))
    assert tagged.read() == tags


def test_tags_put_again_replace_all(tagged):
    tagged.put(tag_set({"one": "1", "two": "2"}))
    tagged.put(tag_set({"three": "3"}))
    assert tagged.read() == {"three": "3"}


def test_deleting_tags_deletes_all(s3, bucket, tagged):
    tagged.put(tag_set({"one": "1"}))
    assert status(tagged.delete()) == 204
    if isinstance(tagged, OfObject):
        assert tagged.read() == {}
    else:
        with refused("NoSuchTagSet", 404):
            tagged.read()
    assert status(tagged.delete()) == 204


BAD = {
    "key of 129": {"k" * 129: "v"},
    "value of 257": {"k": "v" * 257},
    "character": {"k": "semi;colon <tag>"},
}


@pytest.mark.parametrize("case", BAD)
def test_a_tag_that_is_none_is_refused(tagged, case):
    tagged.put(tag_set({"kept": "yes"}))
    with refused("InvalidTag", 400):
        tagged.put(tag_set(BAD[case]))
    assert tagged.read() == {"kept": "yes"}


def test_a_key_named_twice_is_refused(tagged):
    with refused({"InvalidTag", "MalformedXML"}, 400):
        tagged.put({"TagSet": [{"Key": "k", "Value": "1"}, {"Key": "k", "Value": "2"}]})


def test_an_object_has_ten_tags_and_a_bucket_fifty(tagged):
    most = 10 if isinstance(tagged, OfObject) else 50
    full = {f"k{index}": f"v{index}" for index in range(most)}
    tagged.put(tag_set(full))
    assert tagged.read() == full
    with refused({"BadRequest", "InvalidTag", "MalformedXML"}, 400):
        tagged.put(tag_set(full | {"one more": ""}))
    assert tagged.read() == full


def test_an_object_without_tags_has_an_empty_set_and_a_bucket_none(s3, bucket):
    assert OfObject(s3, bucket).read() == {}
    with refused("NoSuchTagSet", 404):
        OfBucket(s3, bucket).read()


def test_tags_come_with_a_put(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"", Tagging="one=1&two=a%20b%2Bc&empty=&bare")
    tags = {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key="object")["TagSet"]}
    assert tags == {"one": "1", "two": "a b+c", "empty": "", "bare": ""}


@pytest.mark.parametrize("tagging", ["&".join(f"k{index}=v" for index in range(11)), f"{'k' * 129}=v", f"k={'v' * 257}", "a=1&a=2", "=v"])
def test_a_put_with_tags_that_are_none_stores_nothing(s3, bucket, tagging):
    with refused({"InvalidTag", "BadRequest", "InvalidArgument"}, 400):
        s3.put_object(Bucket=bucket, Key="object", Body=b"", Tagging=tagging)
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="object")


@pytest.mark.parametrize("call", ["get_object", "head_object"])
def test_an_answer_counts_the_tags(s3, bucket, call):
    s3.put_object(Bucket=bucket, Key="object", Body=b"", Tagging="a=1&b=2&c=3")
    assert getattr(s3, call)(Bucket=bucket, Key="object")["TagCount"] == 3
    s3.delete_object_tagging(Bucket=bucket, Key="object")
    assert "TagCount" not in getattr(s3, call)(Bucket=bucket, Key="object")


def test_a_put_without_tags_takes_them_away(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"", Tagging="a=1")
    s3.put_object(Bucket=bucket, Key="object", Body=b"")
    assert s3.get_object_tagging(Bucket=bucket, Key="object")["TagSet"] == []


def test_tags_change_nothing_else(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body", Metadata={"kept": "yes"})
    before = s3.head_object(Bucket=bucket, Key="object")
    s3.put_object_tagging(Bucket=bucket, Key="object", Tagging=tag_set({"a": "1"}))
    after = s3.head_object(Bucket=bucket, Key="object")
    assert (before["ETag"], before["LastModified"], before["Metadata"]) == (after["ETag"], after["LastModified"], after["Metadata"])


def test_versions_have_tags_of_their_own(s3, versioned):
    which = {"Bucket": versioned, "Key": "object"}
    one = s3.put_object(**which, Body=b"one", Tagging="n=1")["VersionId"]
    two = s3.put_object(**which, Body=b"two", Tagging="n=2")["VersionId"]
    answer = s3.put_object_tagging(**which, VersionId=one, Tagging=tag_set({"n": "changed"}))
    assert answer["VersionId"] == one
    assert s3.get_object_tagging(**which, VersionId=one)["TagSet"] == [{"Key": "n", "Value": "changed"}]
    latest = s3.get_object_tagging(**which)
    assert (latest["TagSet"], latest["VersionId"]) == ([{"Key": "n", "Value": "2"}], two)
    assert s3.delete_object_tagging(**which, VersionId=one)["VersionId"] == one
    assert s3.get_object_tagging(**which, VersionId=one)["TagSet"] == []
    assert s3.get_object_tagging(**which)["TagSet"] == [{"Key": "n", "Value": "2"}]
    # Tags are changed in place: no version came of it.
    assert len(s3.list_object_versions(Bucket=versioned)["Versions"]) == 2


def test_a_delete_marker_has_no_tags(s3, versioned):
    which = {"Bucket": versioned, "Key": "object"}
    s3.put_object(**which, Body=b"body")
    marker = s3.delete_object(**which)["VersionId"]
    with refused("MethodNotAllowed", 405):
        s3.get_object_tagging(**which, VersionId=marker)
    with refused("MethodNotAllowed", 405):
        s3.put_object_tagging(**which, VersionId=marker, Tagging=tag_set({"a": "1"}))


def test_what_is_not_there_has_no_tags(s3, bucket):
    with refused("NoSuchKey", 404):
        s3.get_object_tagging(Bucket=bucket, Key="nothing")
    with refused("NoSuchKey", 404):
        s3.put_object_tagging(Bucket=bucket, Key="nothing", Tagging=tag_set({"a": "1"}))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Tagging>",
        b"<Tagging></Tagging>",
        b"<Tagging><TagSet><Tag><Key>k</Key></TagSet></Tagging>",
        b"<Tagging><TagSet><Tag><Key></Key><Value>v</Value></Tag></TagSet></Tagging>",
    ],
    ids=["empty", "open", "no set", "cut off", "empty key"],
)
def test_tags_that_are_no_xml_are_refused(wire, s3, bucket, body):
    s3.put_object(Bucket=bucket, Key="object", Body=b"")
    reply = wire.send("PUT", f"/{bucket}/object?tagging", {"Content-MD5": content_md5(body)}, body)
    assert reply.status == 400 and reply.code in {"MalformedXML", "MissingRequestBodyError", "InvalidTag"}


def test_nobody_else_reads_or_writes_tags(alt, s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"", Tagging="a=1")
    with refused("AccessDenied", 403):
        alt.get_object_tagging(Bucket=bucket, Key="object")
    with refused("AccessDenied", 403):
        alt.put_object_tagging(Bucket=bucket, Key="object", Tagging=tag_set({"a": "2"}))
    with refused("AccessDenied", 403):
        alt.get_bucket_tagging(Bucket=bucket)


def test_tags_are_told_in_the_order_of_their_names(s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body", Tagging="foo=1&bar&Baz=2")
    names = [tag["Key"] for tag in s3.get_object_tagging(Bucket=bucket, Key="object")["TagSet"]]
    assert names == ["Baz", "bar", "foo"]
