"""What is set on a bucket, or given in every one: what it blocks of public access, how it is encrypted, who pays, and what there is none of."""

from __future__ import annotations

import json
from itertools import product

import pytest

from wire import refused, status

NAMES = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"]


def block(s3, bucket: str, *names: str) -> None:
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=dict.fromkeys(names, True))


def let_in(s3, bucket: str, principal) -> None:
    statement = {"Effect": "Allow", "Principal": principal, "Action": ["s3:GetObject", "s3:PutObject"], "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))


def test_what_is_blocked_is_kept_until_it_is_taken_back(s3, bucket):
    with refused("NoSuchPublicAccessBlockConfiguration", 404):
        s3.get_public_access_block(Bucket=bucket)
    for values in product([True, False], repeat=4):
        wanted = dict(zip(NAMES, values, strict=True))
        s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=wanted)
        assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == wanted
    assert status(s3.delete_public_access_block(Bucket=bucket)) == 204
    with refused("NoSuchPublicAccessBlockConfiguration", 404):
        s3.get_public_access_block(Bucket=bucket)


def test_what_is_not_said_is_not_blocked(s3, bucket):
    block(s3, bucket, "BlockPublicPolicy")
    found = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert found == {name: name == "BlockPublicPolicy" for name in NAMES}


def test_a_policy_that_lets_everybody_in_is_blocked_and_others_are_not(s3, alt, bucket):
    who = {"CanonicalUser": alt.list_buckets()["Owner"]["ID"]}
    let_in(s3, bucket, who)
    block(s3, bucket, "BlockPublicPolicy")
    for everybody in ("*", {"AWS": "*"}):
        with refused("AccessDenied", 403):
            let_in(s3, bucket, everybody)
    assert "*" not in json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"][0]["Principal"].values()
    let_in(s3, bucket, who)
    s3.delete_public_access_block(Bucket=bucket)
    let_in(s3, bucket, "*")


def test_a_restricted_bucket_with_a_public_policy_is_open_to_its_owner_alone(s3, alt, anonymous, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body")
    let_in(s3, bucket, "*")
    for stranger in (alt, anonymous):
        assert stranger.get_object(Bucket=bucket, Key="object")["Body"].read() == b"body"
    block(s3, bucket, "RestrictPublicBuckets")
    for stranger in (alt, anonymous):
        with refused("AccessDenied", 403):
            stranger.get_object(Bucket=bucket, Key="object")
        with refused("AccessDenied", 403):
            stranger.put_object(Bucket=bucket, Key="object", Body=b"changed")
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"body"
    let_in(s3, bucket, {"CanonicalUser": alt.list_buckets()["Owner"]["ID"]})
    assert alt.get_object(Bucket=bucket, Key="object")["Body"].read() == b"body"


def test_nobody_else_sees_or_changes_what_is_blocked(s3, alt, bucket):
    block(s3, bucket, *NAMES)
    for call in (
        lambda: alt.get_public_access_block(Bucket=bucket),
        lambda: alt.delete_public_access_block(Bucket=bucket),
        lambda: block(alt, bucket),
    ):
        with refused("AccessDenied", 403):
            call()
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())


def rules(algorithm: str, **more) -> dict:
    return {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": algorithm, **more}}]}


def test_a_bucket_is_encrypted_by_the_server_and_stays_so(s3, bucket):
    def algorithm() -> str:
        (rule,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
        return rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]

    assert algorithm() == "AES256"
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=rules("AES256"))
    assert status(s3.delete_bucket_encryption(Bucket=bucket)) == 204
    assert algorithm() == "AES256"


def test_keys_of_a_service_for_keys_are_refused(s3, bucket):
    for wanted in (rules("aws:kms"), rules("aws:kms", KMSMasterKeyID="a-key"), rules("aws:kms:dsse")):
        with refused({"NotImplemented", "KMS.NotFoundException"}, {400, 501}):
            s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=wanted)


def test_the_owner_pays_and_nothing_is_logged_told_or_sped_up(s3, bucket):
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)
    told = s3.get_bucket_notification_configuration(Bucket=bucket)
    assert not [name for name in told if name.endswith(("Configurations", "Configuration"))]
    assert "Status" not in s3.get_bucket_accelerate_configuration(Bucket=bucket)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("get_bucket_replication", "ReplicationConfigurationNotFoundError"),
        ("get_bucket_website", "NoSuchWebsiteConfiguration"),
    ],
)
def test_what_there_is_none_of_is_told_by_its_own_name(s3, bucket, bucket_name, call, code):
    with refused(code, 404):
        getattr(s3, call)(Bucket=bucket)
    with refused("NoSuchBucket", 404):
        getattr(s3, call)(Bucket=bucket_name)


@pytest.mark.parametrize(
    "call",
    "get_bucket_encryption get_bucket_request_payment get_bucket_logging get_bucket_notification_configuration get_bucket_website".split(),
)
def test_nobody_else_is_told(alt, bucket, call):
    with refused("AccessDenied", 403):
        getattr(alt, call)(Bucket=bucket)


def test_a_bucket_gets_the_tags_that_it_is_made_with(s3, make_bucket, wire, bucket_name):
    tags = [{"Key": "project", "Value": "a b"}, {"Key": "stage", "Value": ""}]
    bucket = make_bucket(CreateBucketConfiguration={"Tags": tags})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    plain = make_bucket()
    with refused("NoSuchTagSet", 404):
        s3.get_bucket_tagging(Bucket=plain)
    twice = "<Tag><Key>k</Key><Value>v</Value></Tag>" * 2
    body = f"<CreateBucketConfiguration><Tags>{twice}</Tags></CreateBucketConfiguration>".encode()
    reply = wire.send("PUT", f"/{bucket_name}", {}, body)
    assert (reply.status, reply.code) == (400, "InvalidTag")
    with refused("404", 404):
        s3.head_bucket(Bucket=bucket_name)
