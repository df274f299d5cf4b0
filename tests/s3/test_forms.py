"""Uploads by a form of a browser: what the signed policy in it allows, and what a bucket's policy says of its key."""

from __future__ import annotations

import json

import pytest
from urllib3 import encode_multipart_formdata

from wire import Reply


def post(wire, form: dict, body: bytes, **changed: str) -> Reply:
    fields = form["fields"] | changed
    content, kind = encode_multipart_formdata([*fields.items(), ("file", ("name.txt", body, "text/plain"))])
    return wire.send("POST", f"/{form['url'].rstrip('/').rpartition('/')[2]}", {"Content-Type": kind}, content, anonymous=True)


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


def test_a_form_is_held_to_the_length_that_it_allows(s3, wire, bucket):
    form = s3.generate_presigned_post(bucket, "object", Conditions=[["content-length-range", 1, 10]])
    assert post(wire, form, b"more than ten bytes").code == "EntityTooLarge"
    assert post(wire, form, b"few").status == 204


def test_a_policy_of_the_bucket_holds_for_the_key_in_the_form(s3, alt, wire, bucket):
    """The URL of a form names the bucket alone; the key stands in a field."""
    who = {"CanonicalUser": alt.list_buckets()["Owner"]["ID"]}
    allow = {"Effect": "Allow", "Principal": who, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    deny = allow | {"Effect": "Deny", "Resource": f"arn:aws:s3:::{bucket}/kept/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow, deny]}))
    assert post(wire, alt.generate_presigned_post(bucket, "kept/object"), b"body").code == "AccessDenied"
    assert post(wire, alt.generate_presigned_post(bucket, "object"), b"body").status == 204
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["object"]
