"""Uploads by a form of a browser: what the signed policy in it allows, and what a bucket's policy says of its key."""

from __future__ import annotations

import base64
import json
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta

import pytest
from urllib3 import encode_multipart_formdata

from wire import Reply, headers, refused


def post(wire, form: dict, body: bytes, file_name: str = "name.txt", **changed: str) -> Reply:
    return post_fields(wire, form["url"].rstrip("/").rpartition("/")[2], form["fields"] | changed, body, file_name)


def post_fields(wire, bucket: str, fields: dict[str, str], body: bytes, file_name: str = "name.txt", **more: str) -> Reply:
    """`more` are headers of the request."""
    content, kind = encode_multipart_formdata([*fields.items(), ("file", (file_name, body, "text/plain"))])
    return wire.send("POST", f"/{bucket}", {"Content-Type": kind} | more, content, anonymous=True)


def signed(wire, conditions: list, fields: dict[str, str], *, age: timedelta = timedelta(), lasts: timedelta = timedelta(hours=1)) -> dict[str, str]:
    """The fields of a form that was signed `age` ago and is good for `lasts` from now. Its policy also speaks of what the signature needs."""
    signer = wire.signer(when=datetime.now(UTC) - age)
    needed = [["starts-with", f"${name}", ""] for name in ("x-amz-algorithm", "x-amz-credential", "x-amz-date")]
    expiration = (datetime.now(UTC) + lasts).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    policy = json.dumps({"expiration": expiration, "conditions": conditions + needed})
    return fields | signer.form(base64.b64encode(policy.encode()).decode())


def test_who_has_the_form_uploads_the_object(s3, wire, bucket):
    reply = post(wire, s3.generate_presigned_post(bucket, "object"), b"from a browser")
    assert reply.status == 204
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"from a browser"


@pytest.mark.parametrize(
    "changed", [{"key": "other"}, {"x-amz-signature": "0" * 64}, {"policy": "e30="}], ids=["key", "signature", "policy"]
)
def test_a_form_that_was_changed_uploads_nothing(s3, wire, bucket, changed):
    assert post(wire, s3.generate_presigned_post(bucket, "object"), b"body", **changed).status in (400, 403)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_form_is_good_for_as_long_as_its_policy_says(s3, wire, bucket):
    conditions = [{"bucket": bucket}, {"key": "object"}]
    hours = timedelta(hours=20)
    assert post_fields(wire, bucket, signed(wire, conditions, {"key": "object"}, age=hours), b"body").status == 204
    over = post_fields(wire, bucket, signed(wire, conditions, {"key": "object"}, lasts=-timedelta(minutes=1)), b"body")
    assert (over.status, over.code) == (403, "AccessDenied")
    stale = post_fields(wire, bucket, signed(wire, conditions, {"key": "object"}, age=timedelta(days=8)), b"body")
    assert stale.status == 403
    early = post_fields(wire, bucket, signed(wire, conditions, {"key": "object"}, age=-hours), b"body")
    assert (early.status, early.code) == (403, "RequestTimeTooSkewed")


def test_a_form_is_held_to_the_length_that_it_allows(s3, wire, bucket):
    form = s3.generate_presigned_post(bucket, "object", Conditions=[["content-length-range", 4, 10]])
    assert post(wire, form, b"more than ten bytes").code == "EntityTooLarge"
    assert post(wire, form, b"one").code == "EntityTooSmall"
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    assert post(wire, form, b"some").status == 204


def test_a_file_may_be_larger_than_what_fits_in_memory_at_once(s3, wire, bucket):
    body = bytes(range(256)) * (66 << 12)
    assert post(wire, s3.generate_presigned_post(bucket, "object"), body).status == 204
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == body


@pytest.mark.parametrize(
    ("conditions", "fields"),
    [
        ([["eq", "$key", "other"]], {}),
        ([["starts-with", "$key", "user/"]], {}),
        ([["starts-with", "$key", ""], ["starts-with", "$x-amz-meta-who", "me"]], {}),
        ([["starts-with", "$key", ""], {"x-amz-meta-who": ""}], {"x-amz-meta-who": "me"}),
        ([["starts-with", "$key", ""]], {"x-amz-meta-who": "me"}),
        ([["starts-with", "$key", ""], ["starts-with", "$Content-Type", "image/"]], {"Content-Type": "image/png, text/html"}),
    ],
    ids=["another key", "another prefix", "a field is missing", "a field differs", "a field too many", "a type of the list differs"],
)
def test_what_the_policy_does_not_allow_is_refused(s3, wire, bucket, conditions, fields):
    reply = post_fields(wire, bucket, signed(wire, [{"bucket": bucket}, *conditions], {"key": "object"} | fields), b"body")
    assert (reply.status, reply.code) == (403, "AccessDenied")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_policy_for_no_bucket_or_for_another_is_refused(s3, wire, make_bucket, bucket):
    for conditions in ([{"key": "object"}], [{"key": "object"}, {"bucket": make_bucket()}]):
        reply = post_fields(wire, bucket, signed(wire, conditions, {"key": "object"}), b"body")
        assert (reply.status, reply.code) == (403, "AccessDenied")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize(
    "document",
    [
        {"conditions": []},
        {"expiration": "2999-01-01T00:00:00Z"},
        {"EXPIRATION": "2999-01-01T00:00:00Z", "conditions": []},
        {"expiration": "2999-01-01T00:00:00Z", "CONDITIONS": []},
        {"expiration": "2999-01-01 00:00:00+00:00", "conditions": []},
        {"expiration": "2999-01-01T00:00:00Z", "conditions": [{}]},
        {"expiration": "2999-01-01T00:00:00Z", "conditions": [["content-length-range", 0]]},
        {"expiration": "2999-01-01T00:00:00Z", "conditions": [["content-length-range", -1, 0]]},
    ],
    ids=str,
)
def test_a_policy_that_is_none_is_refused(wire, bucket, document):
    policy = base64.b64encode(json.dumps(document).encode()).decode()
    reply = post_fields(wire, bucket, {"key": "object"} | wire.signer().form(policy), b"body")
    assert (reply.status, reply.code) == (400, "InvalidPolicyDocument")


def test_names_of_fields_may_be_in_capitals(s3, wire, bucket):
    conditions = [{"BuCkEt": bucket}, ["Starts-With", "$KEY", "obj"], ["starts-with", "$content-type", "text/"]]
    fields = signed(wire, conditions, {"kEY": "object", "CONTENT-TYPE": "text/html"})
    assert post_fields(wire, bucket, fields, b"body").status == 204
    assert s3.head_object(Bucket=bucket, Key="object")["ContentType"] == "text/html"


@pytest.mark.parametrize("file_name", ["photo.jpg", "C:\\Users\\me\\photo.jpg", "/srv/me/photo.jpg"])
def test_the_name_of_the_file_stands_in_for_its_place_in_a_field(s3, wire, bucket, file_name):
    conditions = [{"bucket": bucket}, ["starts-with", "$key", "user/"], ["starts-with", "$x-amz-meta-name", ""]]
    fields = signed(wire, conditions, {"key": "user/${filename}", "x-amz-meta-name": "${filename}"})
    assert post_fields(wire, bucket, fields, b"body", file_name).status == 204
    assert s3.head_object(Bucket=bucket, Key="user/photo.jpg")["Metadata"] == {"name": "photo.jpg"}


def test_a_form_may_give_the_object_headers_metadata_tags_and_a_class(s3, wire, bucket):
    tags = "<Tagging><TagSet><Tag><Key>a key</Key><Value>a+b</Value></Tag></TagSet></Tagging>"
    given = {"Content-Type": "text/css", "Cache-Control": "no-cache", "x-amz-meta-who": "Jürgen", "x-amz-storage-class": "STANDARD_IA"}
    form = s3.generate_presigned_post(
        bucket, "object", Fields=given | {"tagging": tags}, Conditions=[{name: value} for name, value in (given | {"tagging": tags}).items()]
    )
    assert post(wire, form, b"body").status == 204
    found = s3.head_object(Bucket=bucket, Key="object")
    assert (found["ContentType"], found["CacheControl"], found["StorageClass"]) == ("text/css", "no-cache", "STANDARD_IA")
    assert headers(found)["x-amz-meta-who"]
    assert s3.get_object_tagging(Bucket=bucket, Key="object")["TagSet"] == [{"Key": "a key", "Value": "a+b"}]


def test_the_content_is_held_to_a_checksum_in_the_form(s3, wire, bucket):
    right = "FTS7yYblJz17iuq7Y5f8g0k5XKN+b4m8gmE4Wcjrm34="
    for sum_, status in ((right, 204), (right.lower(), 400)):
        given = {"x-amz-checksum-sha256": sum_}
        form = s3.generate_presigned_post(bucket, f"object{status}", Fields=given, Conditions=[given])
        assert post(wire, form, b"content of the form").status == status
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["object204"]


def test_a_form_gives_nothing_away_by_a_list(s3, wire, bucket):
    for acl, code in (("private", None), ("public-read", "AccessControlListNotSupported")):
        form = s3.generate_presigned_post(bucket, acl, Fields={"acl": acl}, Conditions=[{"acl": acl}])
        assert post(wire, form, b"body").code == code
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["private"]


def test_a_form_puts_its_file_and_nothing_else(s3, wire, make_bucket, bucket):
    """Fields become headers; those of other operations must not."""
    secret = make_bucket()
    s3.put_object(Bucket=secret, Key="secret", Body=b"secret")
    given = {"x-amz-copy-source": f"/{secret}/secret", "x-amz-write-offset-bytes": "0"}
    form = s3.generate_presigned_post(bucket, "object", Fields=given, Conditions=[{name: value} for name, value in given.items()])
    assert post(wire, form, b"body").status == 204
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"body"


def test_the_answer_is_as_the_form_wants_it(s3, wire, bucket):
    def answer(name: str, value: str) -> Reply:
        return post(wire, s3.generate_presigned_post(bucket, "a key", Fields={name: value}, Conditions=[{name: value}]), b"body")

    etag = '"841a2d689ad86bd1611447453c22c6fc"'
    created = answer("success_action_status", "201")
    assert created.status == 201 and created.headers["etag"] == etag
    told = ElementTree.fromstring(created.body)
    assert [told.findtext(name) for name in ("Bucket", "Key", "ETag")] == [bucket, "a key", etag]
    url = f"{wire.server.endpoint}/{bucket}/a%20key"
    assert (told.findtext("Location"), created.headers["location"]) == (url, url)
    assert (answer("success_action_status", "200").status, answer("success_action_status", "404").status) == (200, 204)
    sent_on = answer("success_action_redirect", "https://example.org/done?n=1")
    assert sent_on.status == 303
    assert sent_on.headers["location"] == f"https://example.org/done?n=1&bucket={bucket}&key=a%20key&etag=%22{etag[1:-1]}%22"
    assert answer("success_action_redirect", "no address").status == 204


@pytest.mark.parametrize("left_out", ["key", "policy", "x-amz-signature", "x-amz-credential", "x-amz-date", "x-amz-algorithm"])
def test_a_form_that_leaves_something_out_is_refused(s3, wire, bucket, left_out):
    form = s3.generate_presigned_post(bucket, "object")
    fields = {name: value for name, value in form["fields"].items() if name.lower() != left_out}
    reply = post_fields(wire, bucket, fields, b"body")
    assert (reply.status, reply.code) == (400, "InvalidArgument")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_form_is_signed_for_this_service_by_somebody_known(s3, wire, bucket):
    for field, value, expected in (
        ("x-amz-credential", "nobody/20260101/{region}/s3/aws4_request", {"InvalidAccessKeyId", "AuthorizationQueryParametersError"}),
        ("x-amz-credential", wire.server.main.access_key, {"AuthorizationQueryParametersError"}),
        ("x-amz-date", "yesterday", {"AuthorizationQueryParametersError"}),
        ("x-amz-algorithm", "AWS4-HMAC-MD5", {"AuthorizationQueryParametersError"}),
    ):
        assert post(wire, s3.generate_presigned_post(bucket, "object"), b"body", **{field: value}).code in expected


def test_without_a_file_or_with_a_field_twice_a_form_is_refused(s3, wire, bucket):
    fields = list(s3.generate_presigned_post(bucket, "object")["fields"].items())
    for parts in (fields, [*fields, ("Key", "other"), ("file", ("name", b"body"))]):
        content, kind = encode_multipart_formdata(parts)
        reply = wire.send("POST", f"/{bucket}", {"Content-Type": kind}, content, anonymous=True)
        assert (reply.status, reply.code) == (400, "InvalidArgument")


def test_fields_before_the_file_are_limited(s3, wire, bucket):
    reply = post(wire, s3.generate_presigned_post(bucket, "object"), b"body", **{"x-ignore-me": "x" * (20 << 10)})
    assert (reply.status, reply.code) == (400, "MaxPostPreDataLengthExceededError")


def test_what_is_no_form_is_refused(wire, bucket):
    for kind, content in (("multipart/form-data", b"--b\r\n"), ("multipart/form-data; boundary=b", b"--b\r\n\r\n\r\n--b--")):
        reply = wire.send("POST", f"/{bucket}", {"Content-Type": kind}, content, anonymous=True)
        assert reply.status == 400


def test_who_signs_nothing_may_what_the_policy_of_the_bucket_says(s3, wire, bucket):
    fields = {"key": "drop/object", "Content-Type": "text/plain"}
    assert post_fields(wire, bucket, fields, b"body").code == "AccessDenied"
    allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/drop/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    assert post_fields(wire, bucket, fields, b"body").status == 204
    assert post_fields(wire, bucket, fields | {"key": "other/object"}, b"body").code == "AccessDenied"
    assert s3.get_object(Bucket=bucket, Key="drop/object")["Body"].read() == b"body"


def test_a_policy_of_the_bucket_sees_the_client_of_the_form(s3, wire, bucket):
    allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    for number, (name, condition) in enumerate((("User-Agent", "aws:UserAgent"), ("Referer", "aws:Referer"))):
        deny = allow | {"Effect": "Deny", "Condition": {"StringLike": {condition: "*bad*"}}}
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow, deny]}))
        assert post_fields(wire, bucket, {"key": f"good{number}"}, b"body", **{name: "https://good.example"}).status == 204
        assert post_fields(wire, bucket, {"key": f"bad{number}"}, b"body", **{name: "https://bad.example"}).code == "AccessDenied"
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["good0", "good1"]


def test_a_policy_of_the_bucket_holds_for_the_key_in_the_form(s3, alt, wire, bucket):
    """The URL of a form names the bucket alone; the key stands in a field."""
    who = {"CanonicalUser": alt.list_buckets()["Owner"]["ID"]}
    allow = {"Effect": "Allow", "Principal": who, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    deny = allow | {"Effect": "Deny", "Resource": f"arn:aws:s3:::{bucket}/kept/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow, deny]}))
    assert post(wire, alt.generate_presigned_post(bucket, "kept/object"), b"body").code == "AccessDenied"
    assert post(wire, alt.generate_presigned_post(bucket, "object"), b"body").status == 204
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["object"]


def test_a_form_keeps_versions(s3, wire, versioned):
    versions = {post(wire, s3.generate_presigned_post(versioned, "object"), body).headers["x-amz-version-id"] for body in (b"one", b"two")}
    assert len(versions) == 2
    assert {entry["VersionId"] for entry in s3.list_object_versions(Bucket=versioned)["Versions"]} == versions


def test_a_form_for_a_bucket_that_is_not_there_is_told_so(s3, wire, bucket_name):
    assert post(wire, s3.generate_presigned_post(bucket_name, "object"), b"body").code == "NoSuchBucket"
    with refused("NoSuchBucket", 404):
        s3.list_objects_v2(Bucket=bucket_name)
