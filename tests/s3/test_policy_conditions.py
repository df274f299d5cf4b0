"""Conditions of bucket policies: what a request has to say, or not to say, so that a statement is about it."""

from __future__ import annotations

import json

import pytest

from test_forms import post
from test_policies import content, filled, put, second, statement
from wire import refused, status

# Fixtures are found by the names in this file.
__all__ = ["filled", "second"]


def tags(**pairs: str) -> dict:
    return {"TagSet": [{"Key": key, "Value": value} for key, value in pairs.items()]}


@pytest.fixture
def ranked(s3, bucket) -> str:
    """Objects with a tag, with another value of it, with another name, and with none."""
    for key, tagging in {"one": "rank=one&other=x", "two": "rank=two", "Rank": "Rank=one", "none": ""}.items():
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode(), Tagging=tagging)
    return bucket


OF_RANK_ONE = {"StringEquals": {"s3:ExistingObjectTag/rank": "one"}}


def test_an_object_is_read_by_its_tags(s3, alt, ranked):
    put(s3, ranked, statement(ranked, "Allow", "*", "s3:GetObject", Condition=OF_RANK_ONE))
    assert content(alt, ranked, "one") == b"one"
    for key in ("two", "Rank", "none", "missing"):
        with refused("AccessDenied", 403):
            content(alt, ranked, key)
    s3.put_object_tagging(Bucket=ranked, Key="two", Tagging=tags(rank="one"))
    assert content(alt, ranked, "two") == b"two"


def test_an_object_is_withheld_by_its_tags(s3, ranked):
    put(s3, ranked, statement(ranked, "Deny", "*", "s3:GetObject", Condition=OF_RANK_ONE))
    assert content(s3, ranked, "two") == b"two"
    with refused("AccessDenied", 403):
        content(s3, ranked, "one")
    s3.copy_object(Bucket=ranked, Key="copy", CopySource=f"{ranked}/two")
    with refused("AccessDenied", 403):
        s3.copy_object(Bucket=ranked, Key="copy", CopySource=f"{ranked}/one")


def test_tags_are_those_of_the_version_that_is_read(s3, alt, versioned):
    old = s3.put_object(Bucket=versioned, Key="object", Body=b"old", Tagging="rank=one")["VersionId"]
    new = s3.put_object(Bucket=versioned, Key="object", Body=b"new")["VersionId"]
    put(s3, versioned, statement(versioned, "Allow", "*", ["s3:GetObject", "s3:GetObjectVersion"], Condition=OF_RANK_ONE))
    assert alt.get_object(Bucket=versioned, Key="object", VersionId=old)["Body"].read() == b"old"
    for which in ({}, {"VersionId": new}):
        with refused("AccessDenied", 403):
            alt.get_object(Bucket=versioned, Key="object", **which)


def test_tags_are_changed_where_the_present_ones_allow_it(s3, alt, ranked):
    put(s3, ranked, statement(ranked, "Allow", "*", ["s3:PutObjectTagging", "s3:GetObjectTagging"], Condition=OF_RANK_ONE))
    alt.put_object_tagging(Bucket=ranked, Key="one", Tagging=tags(rank="one", more="y"))
    with refused("AccessDenied", 403):
        alt.put_object_tagging(Bucket=ranked, Key="two", Tagging=tags(rank="one"))
    alt.put_object_tagging(Bucket=ranked, Key="one", Tagging=tags(rank="two"))
    with refused("AccessDenied", 403):
        alt.put_object_tagging(Bucket=ranked, Key="one", Tagging=tags(rank="one"))
    with refused("AccessDenied", 403):
        alt.get_object_tagging(Bucket=ranked, Key="one")


TO_RANK_ONE = {"StringEquals": {"s3:RequestObjectTag/rank": "one"}}


def test_an_object_is_put_with_the_tags_that_are_asked_for(s3, alt, wire, bucket):
    put(s3, bucket, statement(bucket, "Allow", "*", ["s3:PutObject", "s3:PutObjectTagging"], Condition=TO_RANK_ONE))
    alt.put_object(Bucket=bucket, Key="object", Body=b"body", Tagging="other=x&rank=one")
    for tagging in ({}, {"Tagging": "rank=two"}, {"Tagging": "Rank=one"}):
        with refused("AccessDenied", 403):
            alt.put_object(Bucket=bucket, Key="object", Body=b"body", **tagging)
        with refused("AccessDenied", 403):
            alt.create_multipart_upload(Bucket=bucket, Key="object", **tagging)


def test_an_upload_that_was_begun_with_the_right_tags_goes_on_without_them(s3, alt, bucket):
    put(s3, bucket, statement(bucket, "Allow", "*", ["s3:PutObject", "s3:PutObjectTagging"], Condition=TO_RANK_ONE))
    which = {"Bucket": bucket, "Key": "object"}
    which["UploadId"] = alt.create_multipart_upload(**which, Tagging="rank=one")["UploadId"]
    tag = alt.upload_part(**which, PartNumber=1, Body=b"body")["ETag"]
    alt.complete_multipart_upload(**which, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
    assert s3.get_object_tagging(Bucket=bucket, Key="object")["TagSet"] == tags(rank="one")["TagSet"]


def test_tags_in_a_body_are_asked_for_too(s3, alt, ranked):
    put(s3, ranked, statement(ranked, "Allow", "*", "s3:PutObjectTagging", Condition=TO_RANK_ONE))
    alt.put_object_tagging(Bucket=ranked, Key="two", Tagging=tags(rank="one"))
    with refused("AccessDenied", 403):
        alt.put_object_tagging(Bucket=ranked, Key="two", Tagging=tags(rank="two"))
    put(s3, ranked, statement(ranked, "Deny", "*", "s3:PutObjectTagging", Condition=TO_RANK_ONE))
    with refused("AccessDenied", 403):
        s3.put_object_tagging(Bucket=ranked, Key="two", Tagging=tags(rank="one"))
    s3.put_object_tagging(Bucket=ranked, Key="two", Tagging=tags(rank="two"))


def test_a_copy_that_keeps_its_tags_does_not_pass_for_one_with_others(s3, alt, second, ranked):
    put(
        s3,
        ranked,
        statement(ranked, "Allow", second, "s3:PutObject", Condition=TO_RANK_ONE),
        statement(ranked, "Allow", second, ["s3:GetObject", "s3:GetObjectTagging", "s3:PutObjectTagging"]),
    )
    copy = {"Bucket": ranked, "Key": "copy", "CopySource": f"{ranked}/two", "Tagging": "rank=one"}
    alt.copy_object(**copy, TaggingDirective="REPLACE")
    with refused("AccessDenied", 403):
        alt.copy_object(**copy, TaggingDirective="COPY")


def test_copies_are_allowed_from_some_sources(s3, alt, make_bucket, filled):
    put(s3, filled, statement(filled, "Allow", "*", ["s3:GetObject", "s3:GetObjectTagging"]))
    to = make_bucket()
    condition = {"StringLike": {"s3:x-amz-copy-source": f"{filled}/public/*"}}
    put(s3, to, statement(to, "Allow", "*", ["s3:PutObject", "s3:PutObjectTagging"], Condition=condition))
    alt.copy_object(Bucket=to, Key="copy", CopySource={"Bucket": filled, "Key": "public/a"})
    alt.copy_object(Bucket=to, Key="copy", CopySource=f"/{filled}/public/b")
    assert content(s3, to, "copy") == b"public/b"
    with refused("AccessDenied", 403):
        alt.copy_object(Bucket=to, Key="copy", CopySource={"Bucket": filled, "Key": "private/a"})
    with refused("AccessDenied", 403):
        alt.put_object(Bucket=to, Key="copy", Body=b"no copy")


def test_copies_are_asked_for_what_they_do_with_metadata(s3, alt, make_bucket, filled):
    put(s3, filled, statement(filled, "Allow", "*", ["s3:GetObject", "s3:GetObjectTagging"]))
    to = make_bucket()
    condition = {"StringEquals": {"s3:x-amz-metadata-directive": "COPY"}}
    put(s3, to, statement(to, "Allow", "*", ["s3:PutObject", "s3:PutObjectTagging"], Condition=condition))
    copy = {"Bucket": to, "Key": "copy", "CopySource": f"{filled}/public/a"}
    alt.copy_object(**copy, MetadataDirective="COPY")
    for directive in ({}, {"MetadataDirective": "REPLACE"}):
        with refused("AccessDenied", 403):
            alt.copy_object(**copy, **directive)


def test_a_list_that_is_denied_is_denied_before_it_is_not_supported(s3, bucket):
    condition = {"StringLike": {"s3:x-amz-acl": "public*"}}
    put(s3, bucket, statement(bucket, "Deny", "*", "s3:PutObject", Condition=condition))
    s3.put_object(Bucket=bucket, Key="object", Body=b"body")
    s3.put_object(Bucket=bucket, Key="object", Body=b"body", ACL="private")
    with refused("AccessDenied", 403):
        s3.put_object(Bucket=bucket, Key="object", Body=b"body", ACL="public-read")


UNENCRYPTED = {"Null": {"s3:x-amz-server-side-encryption": "true"}}


def test_puts_that_do_not_ask_for_encryption_can_be_denied(s3, wire, bucket):
    put(s3, bucket, statement(bucket, "Deny", "*", "s3:PutObject", Condition=UNENCRYPTED))
    with refused("AccessDenied", 403):
        s3.put_object(Bucket=bucket, Key="object", Body=b"body")
    s3.put_object(Bucket=bucket, Key="object", Body=b"body", ServerSideEncryption="AES256")
    assert post(wire, s3.generate_presigned_post(bucket, "form"), b"body").code == "AccessDenied"
    fields = {"x-amz-server-side-encryption": "AES256"}
    form = s3.generate_presigned_post(bucket, "form", Fields=fields, Conditions=[fields])
    assert post(wire, form, b"body").status == 204


def test_an_upload_in_parts_that_asks_for_encryption_once_is_not_denied(s3, bucket):
    put(s3, bucket, statement(bucket, "Deny", "*", "s3:PutObject", Condition=UNENCRYPTED))
    with refused("AccessDenied", 403):
        s3.create_multipart_upload(Bucket=bucket, Key="object")
    which = {"Bucket": bucket, "Key": "object"}
    which["UploadId"] = s3.create_multipart_upload(**which, ServerSideEncryption="AES256")["UploadId"]
    tag = s3.upload_part(**which, PartNumber=1, Body=b"body")["ETag"]
    s3.complete_multipart_upload(**which, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
    assert content(s3, bucket, "object") == b"body"


def test_puts_of_another_algorithm_can_be_denied(s3, bucket):
    condition = {"StringNotEquals": {"s3:x-amz-server-side-encryption": "AES256"}}
    put(s3, bucket, statement(bucket, "Deny", "*", "s3:PutObject", Condition=condition))
    s3.put_object(Bucket=bucket, Key="object", Body=b"body", ServerSideEncryption="AES256")
    for algorithm in ({}, {"ServerSideEncryption": "aws:kms"}, {"ServerSideEncryption": "AES192"}):
        with refused("AccessDenied", 403):
            s3.put_object(Bucket=bucket, Key="object", Body=b"body", **algorithm)


REFERER = {"aws:Referer": ["https://example.org/*", "https://example.com/"]}


@pytest.mark.parametrize(
    "operator, fields, readable",
    [
        ("StringLike", {"Referer": "https://example.org/page"}, True),
        ("StringLike", {"Referer": "https://example.net/"}, False),
        ("StringLike", {}, False),
        ("StringLikeIfExists", {"Referer": "https://example.com/"}, True),
        ("StringLikeIfExists", {"Referer": "https://example.net/"}, False),
        ("StringLikeIfExists", {}, True),
        ("StringNotLike", {"Referer": "https://example.org/page"}, False),
        ("StringNotLike", {}, True),
    ],
)
def test_a_read_is_allowed_for_links_from_a_site(s3, wire, filled, operator, fields, readable):
    put(s3, filled, statement(filled, "Allow", "*", "s3:GetObject", Condition={operator: REFERER}))
    assert wire.send("GET", f"/{filled}/public/a", fields, anonymous=True).status == (200 if readable else 403)


def test_a_client_is_known_by_its_name(s3, wire, filled):
    condition = {"StringEqualsIgnoreCase": {"aws:UserAgent": "Reader/1.0"}}
    put(s3, filled, statement(filled, "Allow", "*", "s3:GetObject", Condition=condition))
    assert wire.send("GET", f"/{filled}/public/a", {"User-Agent": "reader/1.0"}, anonymous=True).status == 200
    assert wire.send("GET", f"/{filled}/public/a", {"User-Agent": "reader/2.0"}, anonymous=True).status == 403


def test_requests_in_the_clear_can_be_denied(s3, server, filled):
    put(s3, filled, statement(filled, "Deny", "*", "s3:GetObject", Condition={"Bool": {"aws:SecureTransport": "false"}}))
    if server.endpoint.startswith("https:"):
        assert content(s3, filled, "public/a") == b"public/a"
    else:
        with refused("AccessDenied", 403):
            content(s3, filled, "public/a")


@pytest.mark.parametrize("operator, readable", [("DateGreaterThan", True), ("DateLessThan", False)])
def test_a_read_is_allowed_at_some_times(s3, anonymous, filled, operator, readable):
    condition = {operator: {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}
    put(s3, filled, statement(filled, "Allow", "*", "s3:GetObject", Condition=condition))
    if readable:
        assert content(anonymous, filled, "public/a") == b"public/a"
    else:
        with refused("AccessDenied", 403):
            content(anonymous, filled, "public/a")


def test_lists_are_allowed_in_small_pages(s3, alt, filled):
    condition = {"NumericLessThanEquals": {"s3:max-keys": "2"}}
    put(s3, filled, statement(filled, "Allow", "*", "s3:ListBucket", None, Condition=condition))
    assert alt.list_objects_v2(Bucket=filled, MaxKeys=2)["KeyCount"] == 2
    for pages in ({}, {"MaxKeys": 3}):
        with refused("AccessDenied", 403):
            alt.list_objects_v2(Bucket=filled, **pages)


def test_a_name_of_a_parameter_may_be_encoded_and_is_still_asked_for(s3, alt, wire, versioned):
    old = s3.put_object(Bucket=versioned, Key="secret/object", Body=b"old")["VersionId"]
    s3.put_object(Bucket=versioned, Key="secret/object", Body=b"new")
    condition = {"StringLike": {"s3:prefix": "secret/*"}}
    put(s3, versioned, statement(versioned, "Deny", "*", "s3:ListBucket", None, Condition=condition))
    assert wire.send("GET", f"/{versioned}?list-type=2&%70refix=secret%2Fo").status == 403
    put(s3, versioned, statement(versioned, "Deny", "*", ["s3:GetObjectVersion", "s3:DeleteObjectVersion"]))
    for method in ("GET", "DELETE"):
        assert wire.send(method, f"/{versioned}/secret/object?%76ersionId={old}").status == 403
    assert content(s3, versioned, "secret/object") == b"new"


def test_several_conditions_hold_together(s3, wire, filled):
    condition = {"StringLike": {"aws:Referer": "https://example.org/*", "aws:UserAgent": "reader/*"}, "Null": {"s3:VersionId": "true"}}
    put(s3, filled, statement(filled, "Allow", "*", "s3:GetObject", Condition=condition))
    both = {"Referer": "https://example.org/", "User-Agent": "reader/1"}
    assert wire.send("GET", f"/{filled}/public/a", both, anonymous=True).status == 200
    for name in both:
        assert wire.send("GET", f"/{filled}/public/a", both | {name: "other"}, anonymous=True).status == 403


@pytest.mark.parametrize(
    "condition",
    [
        '{"StringEquals": {"s3:prefix": "a"}, "StringEquals": {"s3:delimiter": "/"}}',
        '{"ForAllValues:StringEquals": {"s3:prefix": "a"}}',
        '{"StringLike": {"s3:prefix": "${aws:username}/*"}}',
        '{"StringLike": {"aws:SourceIp": "10.*"}}',
        '{"Bool": {"aws:MultiFactorAuthPresent": "true"}}',
        '{"DateLessThan": {"aws:CurrentTime": "soon"}}',
        '{"StringEquals": {"s3:prefix": []}}',
    ],
    ids=["twice", "set operator", "variable", "address as text", "unknown key", "no time", "no value"],
)
def test_a_condition_that_is_not_understood_is_refused(s3, bucket, condition):
    allow = json.dumps(statement(bucket, "Allow", "*", "s3:ListBucket", None))
    policy = f'{{"Version": "2012-10-17", "Statement": [{allow[:-1]}, "Condition": {condition}}}]}}'
    with refused("MalformedPolicy", 400):
        s3.put_bucket_policy(Bucket=bucket, Policy=policy)


def test_what_is_excepted_is_not_meant(s3, alt, anonymous, second, filled):
    everything = [f"arn:aws:s3:::{filled}", f"arn:aws:s3:::{filled}/*"]
    public = f"arn:aws:s3:::{filled}/public/*"
    allow = {"Effect": "Allow", "Principal": "*", "NotAction": ["s3:Put*", "s3:Delete*"], "Resource": everything}
    deny = {"Effect": "Deny", "NotPrincipal": second, "Action": "s3:GetObject", "NotResource": public}
    put(s3, filled, allow, deny)
    assert content(anonymous, filled, "public/a") == b"public/a"
    assert content(alt, filled, "private/a") == b"private/a"
    with refused("AccessDenied", 403):
        content(anonymous, filled, "private/a")
    with refused("AccessDenied", 403):
        alt.put_object(Bucket=filled, Key="public/a", Body=b"theirs")


@pytest.mark.parametrize("extra", [{"NotPrincipal": {"AWS": "second"}}, {"NotAction": "s3:PutObject"}, {"NotResource": "arn:aws:s3:::BUCKET/*"}])
def test_a_statement_says_whom_and_what_it_means_or_does_not_mean_and_not_both(s3, bucket, extra):
    both = statement(bucket, "Deny", "*", "s3:GetObject") | extra
    with refused("MalformedPolicy", 400):
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": [both]}).replace("BUCKET", bucket))


def test_nobody_is_allowed_by_not_being_named(s3, bucket):
    allow = {"Effect": "Allow", "NotPrincipal": {"AWS": "second"}, "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}"}
    with refused("MalformedPolicy", 400):
        put(s3, bucket, allow)


def test_resources_of_many_buckets_mean_this_one(s3, anonymous, make_bucket, filled):
    allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::*", "arn:aws:s3:::*/*"]}
    other = make_bucket()
    put(s3, filled, allow)
    assert content(anonymous, filled, "private/a") == b"private/a"
    with refused("AccessDenied", 403):
        anonymous.list_objects_v2(Bucket=other)


def test_governance_is_passed_over_where_a_policy_allows_it_for_the_key(s3, alt, make_bucket):
    locked = make_bucket(ObjectLockEnabledForBucket=True)
    put(s3, locked, statement(locked, "Allow", "*", ["s3:PutObject", "s3:PutObjectRetention", "s3:DeleteObjectVersion"]))
    retention = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": "2099-01-01T00:00:00Z"}
    versions = {key: s3.put_object(Bucket=locked, Key=key, Body=b"body", **retention)["VersionId"] for key in ("a", "b")}
    which = {"Bucket": locked, "Key": "a", "VersionId": versions["a"], "BypassGovernanceRetention": True}
    with refused("AccessDenied", 403):
        alt.delete_object(**which)
    put(
        s3,
        locked,
        statement(locked, "Allow", "*", "s3:DeleteObjectVersion"),
        statement(locked, "Allow", "*", "s3:BypassGovernanceRetention", "a"),
    )
    wanted = [{"Key": key, "VersionId": version} for key, version in versions.items()]
    answer = alt.delete_objects(Bucket=locked, Delete={"Objects": wanted}, BypassGovernanceRetention=True)
    assert [entry["Key"] for entry in answer["Deleted"]] == ["a"]
    assert [(entry["Key"], entry["Code"]) for entry in answer["Errors"]] == [("b", "AccessDenied")]


@pytest.mark.parametrize(
    "condition, public",
    [
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, False),
        ({"IpAddress": {"aws:SourceIp": "0.0.0.0/1"}}, True),
        ({"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, True),
        ({"StringLike": {"aws:Referer": "https://example.org/*"}}, True),
    ],
)
def test_a_bucket_is_public_unless_a_network_keeps_it(s3, bucket, condition, public):
    put(s3, bucket, statement(bucket, "Allow", "*", "s3:GetObject", Condition=condition))
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"] == public


def test_a_bucket_for_one_account_is_not_public(s3, bucket, second):
    put(s3, bucket, statement(bucket, "Allow", second, "s3:GetObject"))
    assert not s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"]
    assert status(s3.delete_bucket_policy(Bucket=bucket)) == 204


@pytest.mark.parametrize("query", ["prefix=sec%", "prefix=sec%zz", "prefix=sec%ff", "%70refix=sec%"])
def test_a_prefix_that_cant_be_decoded_gets_past_no_denial(s3, wire, bucket, query):
    s3.put_object(Bucket=bucket, Key="secret", Body=b"secret")
    denied = {"StringLike": {"s3:prefix": "sec*"}}
    put(s3, bucket, statement(bucket, "Deny", "*", "s3:ListBucket", None, Condition=denied))
    reply = wire.send("GET", f"/{bucket}?{query}")
    assert reply.status in (400, 403) and b"secret" not in reply.body
    assert wire.send("GET", f"/{bucket}?prefix=sec").status == 403
    assert wire.send("GET", f"/{bucket}?prefix=other").status == 200


def test_a_header_beyond_ascii_gets_past_no_denial(s3, anonymous, wire, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body")
    both = [
        statement(bucket, "Allow", "*", "s3:GetObject"),
        statement(bucket, "Deny", "*", "s3:GetObject", Condition={"StringLike": {"aws:Referer": "*"}}),
    ]
    put(s3, bucket, *both)
    assert wire.send("GET", f"/{bucket}/object", anonymous=True).status == 200
    head = f"GET /{bucket}/object HTTP/1.1\r\nHost: {wire.host}\r\nReferer: http://\xe9/\r\nConnection: close\r\n\r\n"
    assert wire.exchange(head.encode("latin-1")).status == 403
