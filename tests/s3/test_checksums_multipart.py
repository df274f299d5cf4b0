"""Checksums of multipart objects: COMPOSITE, of the checksums of the parts, and FULL_OBJECT, of the bytes as one."""

from __future__ import annotations

import random

import pytest

from digests import checksum, composite
from wire import refused

PART = 5 * 2**20
PARTS = [random.Random(1).randbytes(PART), random.Random(2).randbytes(1000)]
WHOLE = b"".join(PARTS)
COMPOSITE = ["CRC32", "CRC32C", "SHA1", "SHA256", "SHA512", "MD5", "XXHASH64", "XXHASH3", "XXHASH128"]
FULL = ["CRC32", "CRC32C", "CRC64NVME"]


class Upload:
    def __init__(self, s3, bucket: str, algorithm: str | None = None, kind: str | None = None):
        self.s3, self.algorithm = s3, algorithm
        self.which = {"Bucket": bucket, "Key": "object"}
        settings = ({"ChecksumAlgorithm": algorithm} if algorithm else {}) | ({"ChecksumType": kind} if kind else {})
        self.begun = s3.create_multipart_upload(**self.which, **settings)
        self.which["UploadId"] = self.begun["UploadId"]
        self.done = []

    def put(self, number: int, body: bytes) -> dict:
        name = f"Checksum{self.algorithm}"
        answer = self.s3.upload_part(**self.which, PartNumber=number, Body=body, **{name: checksum(self.algorithm, body)})
        self.done.append({"PartNumber": number, "ETag": answer["ETag"], name: answer[name]})
        return answer

    def complete(self, **settings):
        return self.s3.complete_multipart_upload(**self.which, MultipartUpload={"Parts": self.done}, **settings)


def filled(s3, bucket: str, algorithm: str, kind: str) -> Upload:
    upload = Upload(s3, bucket, algorithm, kind)
    assert (upload.begun["ChecksumAlgorithm"], upload.begun["ChecksumType"]) == (algorithm, kind)
    for number, part in enumerate(PARTS, 1):
        assert upload.put(number, part)[f"Checksum{algorithm}"] == checksum(algorithm, part)
    return upload


@pytest.mark.parametrize("algorithm", COMPOSITE)
def test_a_composite_checksum_is_of_the_checksums_of_the_parts(s3, bucket, algorithm):
    expected, name = composite(algorithm, PARTS), f"Checksum{algorithm}"
    answer = filled(s3, bucket, algorithm, "COMPOSITE").complete()
    assert (answer[name], answer["ChecksumType"]) == (expected, "COMPOSITE")
    head = s3.head_object(Bucket=bucket, Key="object", ChecksumMode="ENABLED")
    assert (head[name], head["ChecksumType"]) == (expected, "COMPOSITE")
    assert s3.get_object(Bucket=bucket, Key="object", ChecksumMode="ENABLED")["Body"].read() == WHOLE


@pytest.mark.parametrize("algorithm", FULL)
def test_a_full_checksum_is_of_the_bytes_as_one(s3, bucket, algorithm):
    expected, name = checksum(algorithm, WHOLE), f"Checksum{algorithm}"
    answer = filled(s3, bucket, algorithm, "FULL_OBJECT").complete(**{name: expected}, ChecksumType="FULL_OBJECT")
    assert (answer[name], answer["ChecksumType"]) == (expected, "FULL_OBJECT")
    head = s3.head_object(Bucket=bucket, Key="object", ChecksumMode="ENABLED")
    assert (head[name], head["ChecksumType"]) == (expected, "FULL_OBJECT")
    assert s3.get_object(Bucket=bucket, Key="object", ChecksumMode="ENABLED")["Body"].read() == WHOLE


@pytest.mark.parametrize("algorithm, kind", [("CRC32", "FULL_OBJECT"), ("CRC64NVME", "FULL_OBJECT"), ("SHA256", "COMPOSITE")])
def test_a_completion_with_a_wrong_checksum_is_refused(s3, bucket, algorithm, kind):
    upload = filled(s3, bucket, algorithm, kind)
    wrong = checksum(algorithm, WHOLE + b"!") + ("-2" if kind == "COMPOSITE" else "")
    with refused({"BadDigest", "InvalidRequest"}, 400):
        upload.complete(**{f"Checksum{algorithm}": wrong}, ChecksumType=kind)
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="object")


@pytest.mark.parametrize("algorithm, kind", [("CRC64NVME", "COMPOSITE"), ("SHA1", "FULL_OBJECT"), ("SHA256", "FULL_OBJECT")])
def test_a_kind_that_does_not_fit_the_algorithm_is_refused(s3, bucket, algorithm, kind):
    with refused("InvalidRequest", 400):
        Upload(s3, bucket, algorithm, kind)


def test_a_kind_without_an_algorithm_is_refused(wire, bucket):
    reply = wire.send("POST", f"/{bucket}/object?uploads", {"x-amz-checksum-type": "COMPOSITE"})
    assert (reply.status, reply.code) == (400, "InvalidRequest")


def test_an_algorithm_that_is_none_is_refused(wire, bucket):
    reply = wire.send("POST", f"/{bucket}/object?uploads", {"x-amz-checksum-algorithm": "MD4"})
    assert (reply.status, reply.code) == (400, "InvalidRequest")


@pytest.mark.parametrize(
    "algorithm, kind", [("CRC32", "COMPOSITE"), ("SHA1", "COMPOSITE"), ("SHA256", "COMPOSITE"), ("CRC64NVME", "FULL_OBJECT")]
)
def test_each_algorithm_has_a_kind_of_its_own_if_none_is_named(wire, bucket, algorithm, kind):
    reply = wire.send("POST", f"/{bucket}/object?uploads", {"x-amz-checksum-algorithm": algorithm})
    assert (reply.headers["x-amz-checksum-algorithm"], reply.headers["x-amz-checksum-type"]) == (algorithm, kind)


def test_a_part_with_a_wrong_checksum_is_refused(s3, bucket):
    upload = Upload(s3, bucket, "SHA256")
    with refused("BadDigest", 400):
        s3.upload_part(**upload.which, PartNumber=1, Body=b"body", ChecksumSHA256=checksum("SHA256", b"another"))
    assert "Parts" not in s3.list_parts(**upload.which)


def test_a_part_with_the_checksum_of_another_algorithm_is_refused(s3, bucket):
    upload = Upload(s3, bucket, "SHA256")
    with refused("InvalidRequest", 400):
        s3.upload_part(**upload.which, PartNumber=1, Body=b"body", ChecksumCRC32C=checksum("CRC32C", b"body"))


def test_a_completion_names_the_checksums_of_its_parts_rightly(s3, bucket):
    upload = Upload(s3, bucket, "SHA256")
    upload.put(1, b"body")
    upload.done[0]["ChecksumSHA256"] = checksum("SHA256", b"another")
    with refused({"InvalidPart", "BadDigest"}, 400):
        upload.complete()
    upload.done[0]["ChecksumSHA256"] = checksum("SHA256", b"body")
    upload.complete()


def test_an_upload_that_was_begun_with_sha_256_names_it_for_each_part(s3, bucket):
    upload = Upload(s3, bucket, "SHA256")
    upload.put(1, b"body")
    del upload.done[0]["ChecksumSHA256"]
    with refused("InvalidRequest", 400):
        upload.complete()


def test_a_list_of_parts_has_their_checksums(s3, bucket):
    upload = filled(s3, bucket, "CRC32C", "COMPOSITE")
    listing = s3.list_parts(**upload.which)
    assert [part["ChecksumCRC32C"] for part in listing["Parts"]] == [checksum("CRC32C", part) for part in PARTS]
    assert (listing["ChecksumAlgorithm"], listing["ChecksumType"]) == ("CRC32C", "COMPOSITE")
    (listed,) = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == ("CRC32C", "COMPOSITE")


def test_attributes_list_the_parts_with_their_checksums(s3, bucket):
    filled(s3, bucket, "SHA256", "COMPOSITE").complete()
    answer = s3.get_object_attributes(Bucket=bucket, Key="object", ObjectAttributes=["ObjectParts", "Checksum", "ObjectSize"])
    assert answer["ObjectSize"] == len(WHOLE)
    assert answer["Checksum"]["ChecksumSHA256"].split("-")[0] == composite("SHA256", PARTS).split("-")[0]
    parts = answer["ObjectParts"]
    assert (parts["TotalPartsCount"], parts["IsTruncated"]) == (2, False)
    found = [(part["PartNumber"], part["Size"], part["ChecksumSHA256"]) for part in parts["Parts"]]
    assert found == [(number, len(part), checksum("SHA256", part)) for number, part in enumerate(PARTS, 1)]


def test_attributes_list_parts_by_page(s3, bucket):
    filled(s3, bucket, "SHA256", "COMPOSITE").complete()
    wanted = {"Bucket": bucket, "Key": "object", "ObjectAttributes": ["ObjectParts"]}
    page = s3.get_object_attributes(**wanted, MaxParts=1)["ObjectParts"]
    assert ([part["PartNumber"] for part in page["Parts"]], page["IsTruncated"], page["NextPartNumberMarker"]) == ([1], True, 1)
    page = s3.get_object_attributes(**wanted, MaxParts=1, PartNumberMarker=1)["ObjectParts"]
    assert ([part["PartNumber"] for part in page["Parts"]], page["IsTruncated"]) == ([2], False)


def test_a_part_that_is_got_by_its_number_comes_with_its_checksum(s3, bucket):
    filled(s3, bucket, "SHA256", "COMPOSITE").complete()
    got = s3.get_object(Bucket=bucket, Key="object", PartNumber=2, ChecksumMode="ENABLED")
    assert (got["Body"].read(), got["ChecksumSHA256"]) == (PARTS[1], checksum("SHA256", PARTS[1]))


def test_what_the_sdk_sends_by_default_is_accepted(s3, bucket):
    """boto3 adds CRC32 to each part, and names none of them when it completes."""
    which = {"Bucket": bucket, "Key": "object"}
    upload = s3.create_multipart_upload(**which)
    parts = []
    for number, body in enumerate(PARTS, 1):
        part = s3.upload_part(**which, UploadId=upload["UploadId"], PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    s3.complete_multipart_upload(**which, UploadId=upload["UploadId"], MultipartUpload={"Parts": parts})
    assert s3.get_object(**which, ChecksumMode="ENABLED")["Body"].read() == WHOLE


def test_the_transfer_manager_of_the_sdk_works_in_both_directions(s3, bucket, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(WHOLE * 4)
    s3.upload_file(str(source), bucket, "object", ExtraArgs={"Metadata": {"colour": "blue"}})
    head = s3.head_object(Bucket=bucket, Key="object")
    assert head["ETag"].endswith('-3"') and head["Metadata"] == {"colour": "blue"}
    s3.download_file(bucket, "object", str(target))
    assert target.read_bytes() == source.read_bytes()
    s3.copy({"Bucket": bucket, "Key": "object"}, bucket, "copy")
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == source.read_bytes()


def test_a_wrong_checksum_of_the_whole_is_told_before_one_of_a_part_is_missed(s3, bucket):
    upload = filled(s3, bucket, "SHA256", "COMPOSITE")
    named = upload.done
    upload.done = [{name: part[name] for name in ("PartNumber", "ETag")} for part in named]
    with refused("BadDigest", 400):
        upload.complete(ChecksumSHA256=composite("SHA256", PARTS[:1]))
    with refused("InvalidRequest", 400):
        upload.complete(ChecksumSHA256=composite("SHA256", PARTS))
    upload.done = named
    assert upload.complete(ChecksumSHA256=composite("SHA256", PARTS))["ChecksumSHA256"] == composite("SHA256", PARTS)


def test_a_completion_of_another_kind_than_the_upload_is_refused(s3, bucket):
    upload = filled(s3, bucket, "CRC32", "FULL_OBJECT")
    with refused("InvalidRequest", 400):
        upload.complete(ChecksumType="COMPOSITE")
    assert upload.complete(ChecksumType="FULL_OBJECT")["ChecksumType"] == "FULL_OBJECT"
