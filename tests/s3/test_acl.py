"""Access control lists: switched off, as AWS does for new buckets (BucketOwnerEnforced). The owner has all rights, policies give more."""

from __future__ import annotations

import json

import pytest

from wire import refused, status


@pytest.fixture
def which(s3, bucket) -> dict:
    s3.put_object(Bucket=bucket, Key="object", Body=b"body")
    return {"Bucket": bucket, "Key": "object"}


def owner(s3) -> str:
    return s3.list_buckets()["Owner"]["ID"]


def test_the_owner_has_full_control_of_a_bucket(s3, bucket):
    acl = s3.get_bucket_acl(Bucket=bucket)
    assert acl["Owner"]["ID"] == owner(s3)
    (grant,) = acl["Grants"]
    assert (grant["Grantee"]["ID"], grant["Grantee"]["Type"], grant["Permission"]) == (owner(s3), "CanonicalUser", "FULL_CONTROL")


def test_the_owner_has_full_control_of_an_object(s3, which):
    acl = s3.get_object_acl(**which)
    assert acl["Owner"]["ID"] == owner(s3)
    (grant,) = acl["Grants"]
    assert (grant["Grantee"]["ID"], grant["Permission"]) == (owner(s3), "FULL_CONTROL")


def test_what_is_not_there_has_no_list(s3, bucket, bucket_name):
    with refused("NoSuchKey", 404):
        s3.get_object_acl(Bucket=bucket, Key="nothing")
    with refused("NoSuchBucket", 404):
        s3.get_bucket_acl(Bucket=bucket_name)


def test_ownership_is_enforced(s3, bucket):
    rules = s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    assert rules == [{"ObjectOwnership": "BucketOwnerEnforced"}]


def test_ownership_can_be_enforced_again_and_is_not_lifted(s3, bucket, make_bucket, bucket_name):
    def rules(ownership: str) -> dict:
        return {"Rules": [{"ObjectOwnership": ownership}]}

    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rules("BucketOwnerEnforced"))
    make_bucket(ObjectOwnership="BucketOwnerEnforced")
    for other in ("BucketOwnerPreferred", "ObjectWriter"):
        with refused("NotImplemented", 501):
            s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rules(other))
        with refused("NotImplemented", 501):
            s3.create_bucket(Bucket=bucket_name, ObjectOwnership=other)
    with refused("MalformedXML", 400):
        s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rules("Nobody"))
    assert s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"] == rules("BucketOwnerEnforced")


def test_who_may_not_sees_and_changes_no_ownership(alt, bucket):
    with refused("AccessDenied", 403):
        alt.get_bucket_ownership_controls(Bucket=bucket)
    with refused("AccessDenied", 403):
        alt.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]})


@pytest.mark.parametrize("acl", ["private", "bucket-owner-full-control"])
def test_a_list_that_gives_nothing_away_is_accepted(s3, bucket, acl):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body", ACL=acl)
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"body"
    assert len(s3.get_object_acl(Bucket=bucket, Key="object")["Grants"]) == 1


def test_a_private_bucket_can_be_made_and_kept_private(s3, make_bucket):
    bucket = make_bucket(ACL="private")
    assert len(s3.get_bucket_acl(Bucket=bucket)["Grants"]) == 1


PUBLIC = ["public-read", "public-read-write", "authenticated-read", "aws-exec-read"]


@pytest.mark.parametrize("acl", PUBLIC)
def test_an_object_cant_be_given_away_by_a_list(s3, anonymous, bucket, acl):
    with refused("AccessControlListNotSupported", 400):
        s3.put_object(Bucket=bucket, Key="object", Body=b"body", ACL=acl)
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="object")


@pytest.mark.parametrize("acl", PUBLIC[:3])
def test_a_bucket_cant_be_given_away_by_a_list(s3, alt, anonymous, bucket, acl):
    with refused("AccessControlListNotSupported", 400):
        s3.put_bucket_acl(Bucket=bucket, ACL=acl)
    for stranger in (alt, anonymous):
        with refused("AccessDenied", 403):
            stranger.list_objects_v2(Bucket=bucket)


def test_a_public_bucket_cant_be_made(s3, bucket_name):
    with refused({"InvalidBucketAclWithObjectOwnership", "AccessControlListNotSupported"}, 400):
        s3.create_bucket(Bucket=bucket_name, ACL="public-read")
    with refused("404", 404):
        s3.head_bucket(Bucket=bucket_name)


def test_the_list_of_an_object_cant_be_changed(s3, anonymous, which):
    with refused("AccessControlListNotSupported", 400):
        s3.put_object_acl(**which, ACL="public-read")
    with refused("AccessDenied", 403):
        anonymous.get_object(**which)


def test_grants_in_headers_are_refused(s3, which):
    grant = 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'
    with refused("AccessControlListNotSupported", 400):
        s3.put_object(**which, Body=b"changed", GrantRead=grant)
    with refused("AccessControlListNotSupported", 400):
        s3.put_bucket_acl(Bucket=which["Bucket"], GrantRead=grant)
    assert s3.get_object(**which)["Body"].read() == b"body"


def test_grants_in_a_body_are_refused(s3, which):
    everybody = {"Grantee": {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}, "Permission": "READ"}
    policy = {"Owner": {"ID": owner(s3)}, "Grants": [everybody]}
    with refused("AccessControlListNotSupported", 400):
        s3.put_object_acl(**which, AccessControlPolicy=policy)
    with refused("AccessControlListNotSupported", 400):
        s3.put_bucket_acl(Bucket=which["Bucket"], AccessControlPolicy=policy)


def test_a_list_in_a_body_may_say_what_is_so(s3, alt, which):
    acl = s3.get_object_acl(**which)
    policy = {"Owner": acl["Owner"], "Grants": acl["Grants"]}
    s3.put_object_acl(**which, AccessControlPolicy=policy)
    s3.put_bucket_acl(Bucket=which["Bucket"], AccessControlPolicy=policy)
    (grant,) = acl["Grants"]
    other = {"Type": "CanonicalUser", "ID": alt.list_buckets()["Owner"]["ID"]}
    for grants in ([], [grant | {"Permission": "READ"}], [grant, grant | {"Grantee": other}]):
        with refused("AccessControlListNotSupported", 400):
            s3.put_object_acl(**which, AccessControlPolicy=policy | {"Grants": grants})
    with refused("AccessControlListNotSupported", 400):
        s3.put_bucket_acl(Bucket=which["Bucket"], AccessControlPolicy=policy | {"Owner": {"ID": other["ID"]}})


def test_a_list_that_is_none_is_refused(s3, which):
    with refused({"InvalidArgument", "AccessControlListNotSupported"}, 400):
        s3.put_object(**which, Body=b"changed", ACL="for-my-friends")
    assert s3.get_object(**which)["Body"].read() == b"body"


def test_a_copy_and_an_upload_cant_be_given_away_either(s3, which):
    with refused("AccessControlListNotSupported", 400):
        s3.copy_object(Bucket=which["Bucket"], Key="copy", CopySource=which, ACL="public-read")
    with refused("AccessControlListNotSupported", 400):
        s3.create_multipart_upload(**which, ACL="public-read")


def test_nobody_else_reads_a_list(alt, which):
    with refused("AccessDenied", 403):
        alt.get_object_acl(**which)
    with refused("AccessDenied", 403):
        alt.get_bucket_acl(Bucket=which["Bucket"])


def test_the_owner_of_the_bucket_is_that_of_its_objects(s3, which):
    listing = s3.list_objects_v2(Bucket=which["Bucket"], FetchOwner=True)
    assert listing["Contents"][0]["Owner"]["ID"] == owner(s3)


def test_a_policy_lets_others_see_and_set_the_ownership(s3, alt, bucket):
    second = {"CanonicalUser": alt.list_buckets()["Owner"]["ID"]}
    owners = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}

    def allow(action: str) -> None:
        one = {"Effect": "Allow", "Principal": second, "Action": action, "Resource": f"arn:aws:s3:::{bucket}"}
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [one]}))

    allow("s3:GetBucketOwnershipControls")
    assert alt.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"] == owners
    with refused("AccessDenied", 403):
        alt.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=owners)
    allow("s3:PutBucketOwnershipControls")
    assert status(alt.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=owners)) == 200
    with refused("AccessDenied", 403):
        alt.get_bucket_ownership_controls(Bucket=bucket)
