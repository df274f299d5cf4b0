"""Server-side encryption: AES256 is what every object gets, and other keys are refused instead of passed over."""

from __future__ import annotations

import base64
import hashlib

import pytest

from wire import headers, refused, status

ALGORITHM = "x-amz-server-side-encryption"
PART = 5 * 2**20
KEY = bytes(range(32))
CUSTOMER = {
    f"{ALGORITHM}-customer-algorithm": "AES256",
    f"{ALGORITHM}-customer-key": base64.b64encode(KEY).decode(),
    f"{ALGORITHM}-customer-key-md5": base64.b64encode(hashlib.md5(KEY).digest()).decode(),
}


def test_an_object_that_is_to_be_encrypted_says_so(s3, bucket):
    which = {"Bucket": bucket, "Key": "object"}
    answers = [
        s3.put_object(**which, Body=b"body", ServerSideEncryption="AES256"),
        s3.get_object(**which),
        s3.head_object(**which),
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/object", ServerSideEncryption="AES256"),
        s3.head_object(Bucket=bucket, Key="copy"),
    ]
    assert [answer["ServerSideEncryption"] for answer in answers] == ["AES256"] * len(answers)


def test_an_object_is_encrypted_whether_or_not_that_is_asked_for(s3, bucket):
    assert s3.put_object(Bucket=bucket, Key="object", Body=b"body")["ServerSideEncryption"] == "AES256"
    assert s3.head_object(Bucket=bucket, Key="object")["ServerSideEncryption"] == "AES256"


def test_an_upload_in_parts_says_that_it_is_encrypted(s3, bucket):
    s3.put_object(Bucket=bucket, Key="source", Body=b"source")
    which = {"Bucket": bucket, "Key": "object"}
    begun = s3.create_multipart_upload(**which, ServerSideEncryption="AES256")
    which["UploadId"] = begun["UploadId"]
    first = s3.upload_part(**which, PartNumber=1, Body=bytes(PART))
    second = s3.upload_part_copy(**which, PartNumber=2, CopySource=f"{bucket}/source")
    parts = [{"PartNumber": 1, "ETag": first["ETag"]}, {"PartNumber": 2, "ETag": second["CopyPartResult"]["ETag"]}]
    done = s3.complete_multipart_upload(**which, MultipartUpload={"Parts": parts})
    again = s3.complete_multipart_upload(**which, MultipartUpload={"Parts": parts})
    head = s3.head_object(Bucket=bucket, Key="object")
    assert [answer["ServerSideEncryption"] for answer in (begun, first, second, done, again, head)] == ["AES256"] * 6


def writes(wire, bucket: str, fields: dict[str, str]):
    """A put, a copy and the beginning of an upload."""
    copy = fields | {"x-amz-copy-source": f"{bucket}/source"}
    return [
        wire.send("PUT", f"/{bucket}/object", fields, b"body"),
        wire.send("PUT", f"/{bucket}/object", copy),
        wire.send("POST", f"/{bucket}/object?uploads", fields),
    ]


@pytest.mark.parametrize(
    "fields, code",
    [
        ({ALGORITHM: "aws:kms"}, "NotImplemented"),
        ({ALGORITHM: "aws:kms", f"{ALGORITHM}-aws-kms-key-id": "key"}, "NotImplemented"),
        ({ALGORITHM: "aws:kms:dsse"}, "NotImplemented"),
        ({ALGORITHM: "aes:kms"}, "InvalidArgument"),
        ({ALGORITHM: "AES256", f"{ALGORITHM}-aws-kms-key-id": "key"}, "InvalidArgument"),
        ({f"{ALGORITHM}-aws-kms-key-id": "key"}, "InvalidArgument"),
        (CUSTOMER, "NotImplemented"),
        (CUSTOMER | {ALGORITHM: "AES256"}, "InvalidArgument"),
        (CUSTOMER | {f"{ALGORITHM}-customer-algorithm": "ROT13"}, "InvalidEncryptionAlgorithmError"),
        (CUSTOMER | {f"{ALGORITHM}-customer-key": "c2hvcnQ="}, "InvalidArgument"),
        (CUSTOMER | {f"{ALGORITHM}-customer-key-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}, "InvalidArgument"),
    ]
    + [({name: value for name, value in CUSTOMER.items() if name != missing}, "InvalidArgument") for missing in CUSTOMER],
)
def test_other_keys_are_refused_and_nothing_is_written(s3, wire, bucket, fields, code):
    s3.put_object(Bucket=bucket, Key="source", Body=b"source")
    assert {reply.code for reply in writes(wire, bucket, fields)} == {code}
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["source"]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_a_part_under_a_key_of_the_customer_is_refused(s3, wire, bucket):
    s3.put_object(Bucket=bucket, Key="source", Body=b"source")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="object")["UploadId"]
    target = f"/{bucket}/object?partNumber=1&uploadId={upload}"
    assert wire.send("PUT", target, CUSTOMER, b"body").code == "NotImplemented"
    assert wire.send("PUT", target, CUSTOMER | {"x-amz-copy-source": f"{bucket}/source"}).code == "NotImplemented"
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="object", UploadId=upload)


def test_nothing_is_read_with_a_key_of_the_customer(s3, wire, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body")
    for method in ("GET", "HEAD"):
        assert wire.send(method, f"/{bucket}/object", CUSTOMER).status == 400
    assert wire.send("GET", f"/{bucket}/object?attributes", CUSTOMER | {"x-amz-object-attributes": "ETag"}).code == "InvalidRequest"
    source = {name.replace("x-amz-", "x-amz-copy-source-", 1): value for name, value in CUSTOMER.items()}
    with refused("InvalidRequest", 400):
        names = {"CopySourceSSECustomerAlgorithm": "AES256", "CopySourceSSECustomerKey": KEY}
        s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/object", **names)
    assert wire.send("PUT", f"/{bucket}/copy", source | {"x-amz-copy-source": f"{bucket}/object"}).code == "InvalidRequest"


@pytest.mark.parametrize("fields", [{ALGORITHM: "AES256"}, {ALGORITHM: "aws:kms", f"{ALGORITHM}-aws-kms-key-id": "key"}])
def test_a_read_does_not_say_how_to_encrypt(s3, wire, bucket, fields):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body")
    assert wire.send("GET", f"/{bucket}/object", fields).code == "InvalidArgument"
    assert wire.send("HEAD", f"/{bucket}/object", fields).status == 400
    answer = s3.get_object(Bucket=bucket, Key="object")
    assert status(answer) == 200 and headers(answer)[ALGORITHM] == "AES256"
