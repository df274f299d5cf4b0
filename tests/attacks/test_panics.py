"""Metadata names at and beyond the limits of the archive's record, by every operation that takes metadata."""

import pytest

from wire import Wire

LENGTHS = [1, 250, 251, 255, 256, 1_000, 2_000]


@pytest.mark.parametrize("length", LENGTHS)
def test_metadata_names_of_any_length_that_aws_allows_are_kept(wire: Wire, bucket: str, length: int):
    name = "x-amz-meta-" + "n" * length
    assert wire.send("PUT", f"/{bucket}/named", {name: "value"}, b"body").status == 200
    assert wire.send("HEAD", f"/{bucket}/named").headers[name] == "value"
    assert wire.send("PUT", f"/{bucket}/copy", {"x-amz-copy-source": f"/{bucket}/named"}).status == 200
    assert wire.send("HEAD", f"/{bucket}/copy").headers[name] == "value"
    begun = wire.send("POST", f"/{bucket}/parts?uploads", {name: "value"})
    assert begun.status == 200
    upload = begun.body.split(b"<UploadId>")[1].split(b"<")[0].decode()
    part = wire.send("PUT", f"/{bucket}/parts?partNumber=1&uploadId={upload}", body=b"body")
    parts = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part.headers['etag']}</ETag></Part></CompleteMultipartUpload>"
    assert wire.send("POST", f"/{bucket}/parts?uploadId={upload}", body=parts.encode()).status == 200
    assert wire.send("HEAD", f"/{bucket}/parts").headers[name] == "value"


@pytest.mark.parametrize("target", ["{}/k", "{}/k?uploads"])
def test_too_much_metadata_is_refused_and_the_server_goes_on(wire: Wire, bucket: str, target: str):
    method = "POST" if "?" in target else "PUT"
    reply = wire.send(method, "/" + target.format(bucket), {"x-amz-meta-" + "n" * 2_049: ""})
    assert (reply.status, reply.code) == (400, "MetadataTooLarge")
    assert wire.send("GET", "/-/ready", anonymous=True).status == 200
    assert wire.send("PUT", f"/{bucket}/after", body=b"body").status == 200


def test_long_tags_and_metadata_together_are_refused_or_kept(wire: Wire, bucket: str):
    tags = "&".join(f"{number}{'%C3%A9' * 120}={'%E6%97%A5' * 250}" for number in range(10))
    reply = wire.send("POST", f"/{bucket}/tagged?uploads", {"x-amz-tagging": tags, "x-amz-meta-" + "m" * 1_500: "", "content-type": "t/" + "x" * 20_000})
    assert reply.status in (200, 400) and reply.code in (None, "MetadataTooLarge")
    assert wire.send("PUT", f"/{bucket}/after", body=b"body").status == 200
