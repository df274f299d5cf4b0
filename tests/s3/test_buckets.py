"""Buckets: made, named, found, listed and removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wire import headers, refused, status


def test_a_new_bucket_is_there_and_empty(s3, bucket):
    assert status(s3.head_bucket(Bucket=bucket)) == 200
    listing = s3.list_objects_v2(Bucket=bucket)
    assert listing["KeyCount"] == 0 and not listing["IsTruncated"] and "Contents" not in listing


def test_creating_a_bucket_says_where_it_is(s3, bucket_name):
    answer = s3.create_bucket(Bucket=bucket_name)
    s3.delete_bucket(Bucket=bucket_name)
    assert answer["Location"].rstrip("/").endswith(bucket_name)


def test_creating_an_own_bucket_again_changes_nothing(s3, server, versioned):
    """In us-east-1 AWS answers as if it had been made now, in every other region that it was."""
    bucket = versioned
    s3.put_object(Bucket=bucket, Key="kept", Body=b"kept")
    if server.region == "us-east-1":
        assert status(s3.create_bucket(Bucket=bucket)) == 200
    else:
        with refused("BucketAlreadyOwnedByYou", 409):
            s3.create_bucket(Bucket=bucket)
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert s3.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"kept"


def test_an_own_bucket_without_locks_is_not_created_again_with_them(s3, bucket):
    with refused("BucketAlreadyOwnedByYou", 409):
        s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)


def test_a_bucket_of_somebody_else_cant_be_created_again(alt, bucket):
    with refused("BucketAlreadyExists", 409):
        alt.create_bucket(Bucket=bucket)


def test_a_bucket_that_is_removed_is_gone(s3, bucket):
    answer = s3.delete_bucket(Bucket=bucket)
    assert status(answer) == 204
    with refused("404", 404):
        s3.head_bucket(Bucket=bucket)
    with refused("NoSuchBucket", 404):
        s3.delete_bucket(Bucket=bucket)


def test_the_name_of_a_removed_bucket_is_free_again(s3, make_bucket):
    name = make_bucket()
    s3.put_object(Bucket=name, Key="old", Body=b"old")
    s3.delete_object(Bucket=name, Key="old")
    s3.delete_bucket(Bucket=name)
    make_bucket(name=name)
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=name, Key="old")


def test_a_bucket_with_an_object_in_it_is_not_removed(s3, bucket):
    s3.put_object(Bucket=bucket, Key="kept", Body=b"kept")
    with refused("BucketNotEmpty", 409):
        s3.delete_bucket(Bucket=bucket)
    assert s3.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"kept"


def test_a_bucket_with_only_old_versions_in_it_is_not_removed(s3, versioned):
    s3.put_object(Bucket=versioned, Key="old", Body=b"old")
    s3.delete_object(Bucket=versioned, Key="old")
    with refused("BucketNotEmpty", 409):
        s3.delete_bucket(Bucket=versioned)


def test_a_bucket_of_somebody_else_is_neither_seen_nor_removed(alt, bucket):
    with refused("403", 403):
        alt.head_bucket(Bucket=bucket)
    with refused("AccessDenied", 403):
        alt.delete_bucket(Bucket=bucket)
    with refused("AccessDenied", 403):
        alt.list_objects_v2(Bucket=bucket)
    with refused("AccessDenied", 403):
        alt.put_object(Bucket=bucket, Key="theirs", Body=b"theirs")


def test_an_anonymous_request_sees_no_bucket(anonymous, bucket):
    with refused("403", 403):
        anonymous.head_bucket(Bucket=bucket)
    with refused("AccessDenied", 403):
        anonymous.list_objects_v2(Bucket=bucket)
    with refused("AccessDenied", 403):
        anonymous.put_object(Bucket=bucket, Key="theirs", Body=b"theirs")


@pytest.mark.parametrize(
    "make",
    [
        lambda stem: stem[:3],
        lambda stem: (stem + "x" * 63)[:63],
        lambda stem: f"1{stem}9",
        lambda stem: f"{stem}.with.dots",
        lambda stem: f"{stem}--two-hyphens",
    ],
    ids=["3 characters", "63 characters", "digits at both ends", "dots", "two hyphens"],
)
def test_a_valid_name_is_accepted(s3, make_bucket, bucket_name, make):
    name = make(bucket_name[-20:])
    make_bucket(name=name)
    assert name in [entry["Name"] for entry in s3.list_buckets()["Buckets"]]


@pytest.mark.parametrize(
    "name",
    [
        "ab",
        "x" * 64,
        "Upper-Case",
        "under_score",
        "-starts-with-a-hyphen",
        "ends-with-a-hyphen-",
        ".starts-with-a-dot",
        "ends-with-a-dot.",
        "two..dots",
        "dot.-and-hyphen",
        "hyphen-.and-dot",
        "192.168.5.4",
        "xn--punycode",
        "sthree-reserved",
        "amzn-s3-demo-reserved",
        "reserved-s3alias",
        "reserved--ol-s3",
    ],
)
def test_a_bad_name_is_refused(s3, name):
    with refused("InvalidBucketName", 400):
        s3.create_bucket(Bucket=name)


def test_the_location_of_a_bucket_in_us_east_1_is_empty(s3, server, bucket):
    location = s3.get_bucket_location(Bucket=bucket)["LocationConstraint"]
    assert location == (None if server.region == "us-east-1" else server.region)


def test_the_region_of_a_bucket_stands_in_the_headers(s3, server, bucket):
    assert headers(s3.head_bucket(Bucket=bucket))["x-amz-bucket-region"] == server.region


def test_a_region_that_is_none_is_refused(s3, bucket_name):
    with refused({"InvalidLocationConstraint", "IllegalLocationConstraintException"}, 400):
        s3.create_bucket(Bucket=bucket_name, CreateBucketConfiguration={"LocationConstraint": "moon-west-1"})


def test_a_configuration_that_is_no_xml_is_refused(wire, bucket_name):
    reply = wire.send("PUT", f"/{bucket_name}", body=b"<CreateBucketConfiguration><Location")
    assert (reply.status, reply.code) == (400, "MalformedXML")


def test_the_list_of_buckets_is_in_order_with_dates_and_the_owner(s3, make_bucket):
    names = sorted(make_bucket() for _ in range(3))
    listing = s3.list_buckets()
    listed = [entry["Name"] for entry in listing["Buckets"]]
    assert listed == sorted(listed)
    assert [name for name in listed if name in names] == names
    assert listing["Owner"]["ID"]
    now = datetime.now(UTC)
    for entry in listing["Buckets"]:
        if entry["Name"] in names:
            assert abs(now - entry["CreationDate"]) < timedelta(minutes=10)


def test_everybody_lists_his_own_buckets(s3, alt, make_bucket):
    mine, theirs = make_bucket(), make_bucket(alt)
    assert theirs not in [entry["Name"] for entry in s3.list_buckets()["Buckets"]]
    listing = alt.list_buckets()
    names = [entry["Name"] for entry in listing["Buckets"]]
    assert theirs in names and mine not in names
    assert listing["Owner"]["ID"] != s3.list_buckets()["Owner"]["ID"]


def test_buckets_are_listed_by_prefix_and_page(s3, make_bucket, bucket_name):
    names = [make_bucket(name=f"{bucket_name[-20:]}-{index}") for index in range(5)]
    found, token = [], {}
    for _ in range(5):
        page = s3.list_buckets(Prefix=bucket_name[-20:], MaxBuckets=2, **token)
        assert page["Prefix"] == bucket_name[-20:] and len(page["Buckets"]) <= 2
        found += [entry["Name"] for entry in page["Buckets"]]
        if "ContinuationToken" not in page:
            break
        token = {"ContinuationToken": page["ContinuationToken"]}
    assert found == names


def test_an_anonymous_request_lists_no_buckets(wire):
    # A browser that comes by is sent to the console by AWS; any other server has nothing to send it to.
    assert wire.send("GET", "/", anonymous=True).status in (307, 403)


@pytest.mark.parametrize(
    "call",
    [
        lambda s3, bucket: s3.list_objects(Bucket=bucket),
        lambda s3, bucket: s3.list_objects_v2(Bucket=bucket),
        lambda s3, bucket: s3.list_object_versions(Bucket=bucket),
        lambda s3, bucket: s3.list_multipart_uploads(Bucket=bucket),
        lambda s3, bucket: s3.get_object(Bucket=bucket, Key="key"),
        lambda s3, bucket: s3.put_object(Bucket=bucket, Key="key", Body=b"body"),
        lambda s3, bucket: s3.delete_object(Bucket=bucket, Key="key"),
        lambda s3, bucket: s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "key"}]}),
        lambda s3, bucket: s3.create_multipart_upload(Bucket=bucket, Key="key"),
        lambda s3, bucket: s3.get_bucket_location(Bucket=bucket),
        lambda s3, bucket: s3.get_bucket_versioning(Bucket=bucket),
        lambda s3, bucket: s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}),
        lambda s3, bucket: s3.get_bucket_tagging(Bucket=bucket),
        lambda s3, bucket: s3.get_bucket_policy(Bucket=bucket),
        lambda s3, bucket: s3.get_bucket_acl(Bucket=bucket),
        lambda s3, bucket: s3.get_object_lock_configuration(Bucket=bucket),
        lambda s3, bucket: s3.delete_bucket(Bucket=bucket),
    ],
    ids="list_objects list_objects_v2 list_object_versions list_multipart_uploads get_object put_object delete_object delete_objects "
    "create_multipart_upload get_bucket_location get_bucket_versioning put_bucket_versioning get_bucket_tagging get_bucket_policy "
    "get_bucket_acl get_object_lock_configuration delete_bucket".split(),
)
def test_a_bucket_that_is_not_there_is_named_as_the_reason(s3, bucket_name, call):
    with refused("NoSuchBucket", 404):
        call(s3, bucket_name)


@pytest.mark.parametrize("call", ["head_bucket", "list_objects_v2", "get_bucket_location"])
def test_a_bucket_whose_owner_is_another_than_expected_is_left_alone(s3, bucket, call):
    with refused({"AccessDenied", "403"}, 403):
        getattr(s3, call)(Bucket=bucket, ExpectedBucketOwner="000000000000")


@pytest.mark.parametrize("most", [0, -3, 10_001])
def test_a_page_of_buckets_that_is_none_is_refused(wire, most):
    reply = wire.send("GET", f"/?max-buckets={most}")
    assert (reply.status, reply.code) == (400, "InvalidArgument")
