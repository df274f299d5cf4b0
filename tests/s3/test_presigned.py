"""Presigned URLs: what a signature lets somebody do who has no key, for how long, and nothing else."""

from __future__ import annotations

import http.client
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pytest

from wire import Reply


def fetch(url: str, method: str = "GET", body: bytes | None = None, fields: dict[str, str] | None = None) -> Reply:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", body, fields or {})
        response = connection.getresponse()
        return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def changed(url: str, **parameters: str | None) -> str:
    """The URL with parameters replaced, added, or taken away; `_` stands for `-`."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in parameters.items():
        name = name.replace("_", "-")
        query = {key: old for key, old in query.items() if key != name} | ({name: value} if value is not None else {})
    return urlunsplit(parts._replace(query=urlencode(query)))


@pytest.fixture
def which(s3, bucket) -> dict:
    s3.put_object(Bucket=bucket, Key="a key/with +%é", Body=b"body", ContentType="text/plain")
    return {"Bucket": bucket, "Key": "a key/with +%é"}


@pytest.fixture
def url(s3, which) -> str:
    return s3.generate_presigned_url("get_object", which)


def test_who_has_the_url_reads_the_object(url):
    reply = fetch(url)
    assert (reply.status, reply.body) == (200, b"body")


def test_a_url_is_good_for_ranges_and_conditions(url):
    assert fetch(url, fields={"Range": "bytes=1-2"}).body == b"od"
    assert fetch(url, fields={"If-None-Match": fetch(url).headers["etag"]}).status == 304


def test_a_url_to_head_and_one_to_delete(s3, which):
    reply = fetch(s3.generate_presigned_url("head_object", which), "HEAD")
    assert (reply.status, reply.headers["content-length"], reply.body) == (200, "4", b"")
    assert fetch(s3.generate_presigned_url("delete_object", which), "DELETE").status == 204
    assert fetch(s3.generate_presigned_url("get_object", which)).code == "NoSuchKey"


def test_who_has_the_url_writes_the_object(s3, bucket):
    url = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "object"})
    assert fetch(url, "PUT", b"from outside").status == 200
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"from outside"


def test_a_url_to_put_demands_the_headers_that_were_signed(s3, bucket):
    wanted = {"Bucket": bucket, "Key": "object", "ContentType": "text/plain", "Metadata": {"colour": "blue"}}
    url = s3.generate_presigned_url("put_object", wanted)
    right = {"Content-Type": "text/plain", "x-amz-meta-colour": "blue"}
    assert fetch(url, "PUT", b"body", right | {"x-amz-meta-colour": "red"}).code == "SignatureDoesNotMatch"
    missing = fetch(url, "PUT", b"body")
    assert missing.status in (400, 403)
    assert fetch(url, "PUT", b"body", right).status == 200
    head = s3.head_object(Bucket=bucket, Key="object")
    assert (head["ContentType"], head["Metadata"]) == ("text/plain", {"colour": "blue"})


def test_headers_of_amazon_that_were_not_signed_are_refused(url, s3, bucket):
    put = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "object"})
    reply = fetch(put, "PUT", b"body", {"x-amz-meta-colour": "blue"})
    assert (reply.status, reply.code) == (403, "AccessDenied")


def test_overrides_in_a_url_are_signed(s3, which):
    url = s3.generate_presigned_url("get_object", which | {"ResponseContentType": "foo/bar", "ResponseContentDisposition": "attachment"})
    reply = fetch(url)
    assert (reply.headers["content-type"], reply.headers["content-disposition"]) == ("foo/bar", "attachment")
    assert fetch(changed(url, response_content_type="text/html")).code == "SignatureDoesNotMatch"


def test_a_url_to_list_lists(s3, which):
    reply = fetch(s3.generate_presigned_url("list_objects_v2", {"Bucket": which["Bucket"], "Prefix": "a key/"}))
    assert reply.status == 200 and b"<KeyCount>1</KeyCount>" in reply.body


def test_a_url_of_a_version_is_of_that_version(s3, versioned):
    old = s3.put_object(Bucket=versioned, Key="object", Body=b"old")["VersionId"]
    s3.put_object(Bucket=versioned, Key="object", Body=b"new")
    url = s3.generate_presigned_url("get_object", {"Bucket": versioned, "Key": "object", "VersionId": old})
    assert fetch(url).body == b"old"
    assert fetch(changed(url, versionId=None)).code == "SignatureDoesNotMatch"


def test_a_url_to_upload_a_part_takes_it(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="object")["UploadId"]
    which = {"Bucket": bucket, "Key": "object", "UploadId": upload}
    reply = fetch(s3.generate_presigned_url("upload_part", which | {"PartNumber": 1}), "PUT", b"part")
    parts = {"Parts": [{"PartNumber": 1, "ETag": reply.headers["etag"]}]}
    s3.complete_multipart_upload(**which, MultipartUpload=parts)
    assert s3.get_object(Bucket=bucket, Key="object")["Body"].read() == b"part"


@pytest.mark.parametrize(
    "parameters",
    [
        {"X_Amz_Signature": "0" * 64},
        {"X_Amz_Signature": "short"},
        {"X_Amz_Expires": "600000"},
        {"X_Amz_Date": datetime.now(UTC).strftime("%Y%m%dT000000Z")},
        {"extra": "parameter"},
    ],
    ids=["signature", "short signature", "expires", "date", "one more"],
)
def test_a_url_that_was_changed_is_refused(url, parameters):
    reply = fetch(changed(url, **parameters))
    assert (reply.status, reply.code) in [(403, "SignatureDoesNotMatch"), (403, "AccessDenied")]


def test_a_url_is_good_for_its_method_and_its_key_alone(s3, url, which):
    s3.put_object(Bucket=which["Bucket"], Key="other", Body=b"other")
    assert fetch(url, "PUT", b"changed").code == "SignatureDoesNotMatch"
    assert fetch(url, "DELETE").code == "SignatureDoesNotMatch"
    parts = urlsplit(url)
    assert fetch(urlunsplit(parts._replace(path=f"/{which['Bucket']}/other"))).code == "SignatureDoesNotMatch"
    assert s3.get_object(**which)["Body"].read() == b"body"


@pytest.mark.parametrize(
    "missing", ["X_Amz_Algorithm", "X_Amz_Credential", "X_Amz_Date", "X_Amz_Expires", "X_Amz_SignedHeaders", "X_Amz_Signature"]
)
def test_a_url_that_lacks_a_part_is_refused(url, missing):
    reply = fetch(changed(url, **{missing: None}))
    assert (reply.status, reply.code) in [(400, "AuthorizationQueryParametersError"), (403, "AccessDenied")]


@pytest.mark.parametrize(
    "parameters",
    [
        {"X_Amz_Expires": "604801"},
        {"X_Amz_Expires": "-1"},
        {"X_Amz_Expires": "soon"},
        {"X_Amz_Algorithm": "AWS4-HMAC-MD5"},
        {"X_Amz_Credential": "key/only"},
        {"X_Amz_Date": "yesterday"},
    ],
    ids=["more than a week", "negative", "no number", "algorithm", "credential", "no date"],
)
def test_a_url_with_parts_that_are_none_is_refused(url, parameters):
    reply = fetch(changed(url, **parameters))
    assert (reply.status, reply.code) in [(400, "AuthorizationQueryParametersError"), (403, "AccessDenied")]


@pytest.mark.parametrize("seconds, code", [(3600, None), (300, "AccessDenied")], ids=["in time", "too late"])
def test_a_url_ends_when_its_time_is_over(wire, s3, bucket, seconds, code):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body")
    signer = wire.signer(when=datetime.now(UTC) - timedelta(seconds=600))
    reply = wire.send("GET", signer.presign("GET", f"/{bucket}/object", wire.host, seconds), anonymous=True)
    assert (reply.status, reply.code) == (403 if code else 200, code)


def test_a_url_of_the_future_is_not_good_yet(wire, s3, bucket):
    s3.put_object(Bucket=bucket, Key="object", Body=b"body")
    signer = wire.signer(when=datetime.now(UTC) + timedelta(hours=2))
    reply = wire.send("GET", signer.presign("GET", f"/{bucket}/object", wire.host, 300), anonymous=True)
    assert reply.status == 403 and reply.code in {"AccessDenied", "RequestTimeTooSkewed"}


def test_a_url_of_somebody_without_rights_gives_none(alt, which):
    reply = fetch(alt.generate_presigned_url("get_object", which))
    assert (reply.status, reply.code) == (403, "AccessDenied")


def test_a_url_and_a_header_together_are_refused(url, wire, which):
    parts = urlsplit(url)
    reply = wire.send("GET", f"{parts.path}?{parts.query}")
    assert (reply.status, reply.code) == (400, "InvalidArgument")
