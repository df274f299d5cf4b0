"""Many objects with one request: `POST /bucket?store` with a tar archive puts each of its files, and says what became of them.

An operation of Fulgurite's own, so there is no other server to hold it against. Requests are signed by botocore, archives are written by Python's tarfile and by tar.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import os
import random
import subprocess
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from digests import checksum
from serving import Own, connect
from test_bulk_get import XATTR, ask
from test_keys import ODD
from wire import Account, Server

pytestmark = pytest.mark.skipif("S3_ENDPOINT" in os.environ, reason="no other server has it")


def archive(objects: dict[str, bytes], records: dict[str, dict[str, str]] | None = None, **settings) -> bytes:
    """A tar archive with these objects, and for some of them the headers of their puts."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, **settings) as tar:
        for key, body in objects.items():
            entry = tarfile.TarInfo(key)
            entry.size = len(body)
            entry.pax_headers = {XATTR + name: value for name, value in (records or {}).get(key, {}).items()}
            tar.addfile(entry, io.BytesIO(body))
    return out.getvalue()


def store(server: Server, bucket: str, body: bytes, account: Account | None = None, query: str = "store", **fields: str) -> dict:
    answer = ask(server, bucket, body, account, query, **fields)
    text = answer.read()
    assert (answer.status, answer.getheader("Content-Type")) == (200, "application/json"), text
    result = json.loads(text)
    lines = result["objects"]
    assert result["bucket"] == bucket and result["failed"] == sum("code" in line for line in lines)
    assert result["stored"] == sum("etag" in line for line in lines) == len(lines) - result["failed"]
    assert all(line["message"] for line in lines if "code" in line)
    return result


def codes(result: dict) -> dict[str, str | None]:
    return {line["key"]: line.get("code") for line in result["objects"]}


def refusal(server: Server, bucket: str, body: bytes, account: Account | None = None, query: str = "store", **fields: str) -> tuple[int, str, str]:
    answer = ask(server, bucket, body, account, query, **fields)
    text = answer.read().decode()
    element = lambda name: text.partition(f"<{name}>")[2].partition(f"</{name}>")[0]
    return answer.status, element("Code"), element("Message")


def content(s3, bucket: str) -> dict[str, bytes]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(keys, pool.map(lambda key: s3.get_object(Bucket=bucket, Key=key)["Body"].read(), keys), strict=True))


def test_many_objects_are_stored_with_one_request(server, s3, bucket):
    objects = {f"night/{index:04}": random.Random(index).randbytes(index * 37) for index in range(600)}
    result = store(server, bucket, archive(objects))
    assert result["stored"] == 600
    assert [line["key"] for line in result["objects"]] == list(objects), "lines come in the order of the archive"
    for line in result["objects"]:
        assert line == {"key": line["key"], "size": len(objects[line["key"]]), "etag": hashlib.md5(objects[line["key"]]).hexdigest()}
    assert content(s3, bucket) == objects


def test_a_large_object_among_small_ones(server, s3, bucket):
    objects = {"small": b"s", "large": random.Random(1).randbytes(15_000_000), "empty": b""}
    assert store(server, bucket, archive(objects))["stored"] == 3
    assert content(s3, bucket) == objects


def test_an_archive_without_files_stores_nothing(server, bucket):
    assert store(server, bucket, archive({})) == {"bucket": bucket, "stored": 0, "failed": 0, "objects": []}


def test_what_tar_writes_is_stored_below_the_prefix(server, s3, bucket, tmp_path):
    files = {"a": b"a", "deep/er/b": b"b" * 5_000, f"{'long' * 40}/c": b"c", "ü": b"name"}
    for name, body in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(body)
    for style in ("gnu", "pax", "posix"):
        written = subprocess.run(["tar", "-c", f"--format={style}", "-C", tmp_path, "."], capture_output=True, check=True)
        assert store(server, bucket, written.stdout, query=f"store&prefix={style}%2F")["stored"] == len(files)
        kept = content(s3, bucket)
        assert {key: body for key, body in kept.items() if key.startswith(style)} == {f"{style}/{name}": body for name, body in files.items()}
    os.symlink("a", tmp_path / "link")
    written = subprocess.run(["tar", "-c", "-C", tmp_path, "."], capture_output=True, check=True)
    status, code, message = refusal(server, bucket, written.stdout, query="store&prefix=links%2F")
    assert (status, code) == (400, "MalformedTar") and "./link" in message and "Nothing was stored" in message
    assert not any(key.startswith("links/") for key in content(s3, bucket))


def test_records_state_the_headers_of_the_puts(server, s3, bucket):
    body = b"FITS"
    objects = {key: body for key in ("plain", "full", "archived", "wrong md5", "wrong sum")}
    md5 = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    records = {
        "full": {
            "content-type": "image/fits",
            "content-encoding": "gzip",
            "x-amz-meta-survey": "deep",
            "x-amz-tagging": "a=b&c=d",
            "x-amz-checksum-sha256": checksum("SHA256", body),
        },
        "archived": {"x-amz-storage-class": "GLACIER"},
        "wrong md5": {"content-md5": md5},
        "wrong sum": {"x-amz-checksum-crc32c": checksum("CRC32C", b"other")},
    }
    result = store(server, bucket, archive(objects, records), **{"x-amz-meta-survey": "wide", "x-amz-meta-night": "7"})
    assert codes(result) == {"plain": None, "full": None, "archived": None, "wrong md5": "BadDigest", "wrong sum": "BadDigest"}
    plain, full = (s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED") for key in ("plain", "full"))
    assert (plain["Metadata"], full["Metadata"]) == ({"survey": "wide", "night": "7"}, {"survey": "deep", "night": "7"})
    assert (plain["ContentType"], full["ContentType"], full["ContentEncoding"]) == ("binary/octet-stream", "image/fits", "gzip")
    assert "ChecksumCRC64NVME" in plain and full["ChecksumSHA256"] == checksum("SHA256", body)
    assert {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key="full")["TagSet"]} == {"a": "b", "c": "d"}
    assert s3.head_object(Bucket=bucket, Key="archived")["StorageClass"] == "GLACIER"
    assert set(content_keys(s3, bucket)) == {"plain", "full", "archived"}


def content_keys(s3, bucket: str) -> list[str]:
    return [item["Key"] for item in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_a_repeated_request_replaces_nothing_if_told_so(server, s3, versioned):
    objects = {f"{index}": f"{index}".encode() for index in range(40)}
    s3.put_object(Bucket=versioned, Key="7", Body=b"earlier")
    once = {"If-None-Match": "*"}
    first = store(server, versioned, archive(objects), **once)
    assert codes(first) == {key: "PreconditionFailed" if key == "7" else None for key in objects}
    assert all(line["version_id"] for line in first["objects"] if "etag" in line)
    second = store(server, versioned, archive(objects | {"more": b"more"}), **once)
    assert codes(second) == {key: "PreconditionFailed" for key in objects} | {"more": None}
    assert content(s3, versioned) == objects | {"7": b"earlier", "more": b"more"}
    # Without it, or for one object alone.
    etag = s3.head_object(Bucket=versioned, Key="1")["ETag"]
    records = {"1": {"if-match": etag}, "2": {"if-match": etag}, "3": {"if-none-match": "*"}}
    third = store(server, versioned, archive({key: b"new" for key in "01234"}, records))
    assert codes(third) == {"0": None, "1": None, "2": "PreconditionFailed", "3": "PreconditionFailed", "4": None}
    assert len(s3.list_object_versions(Bucket=versioned, Prefix="0")["Versions"]) == 2


def test_odd_keys_are_stored_as_they_are(server, s3, bucket):
    keys = list(dict.fromkeys([*ODD, "ü" * 300, "x/../../../outside", "./dot", "new\nline"]))
    objects = {key: key.encode() for key in keys}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, (key, body) in enumerate(objects.items()):
            entry = tarfile.TarInfo(f"{number}")
            entry.size, entry.pax_headers = len(body), {XATTR + "key": key}
            tar.addfile(entry, io.BytesIO(body))
    result = store(server, bucket, out.getvalue())
    assert [line["key"] for line in result["objects"]] == keys and result["failed"] == 0, codes(result)
    assert content(s3, bucket) == objects


def test_what_a_put_refuses_has_a_line_and_the_rest_is_stored(server, s3, bucket):
    objects = {"a": b"a", "k" * 1_025: b"long", "b": b"b", "grant": b"c", "class": b"d", "meta": b"e"}
    records = {"grant": {"x-amz-grant-read": "id=1"}, "class": {"x-amz-storage-class": "WARM"}, "meta": {"x-amz-meta-a": "m" * 3_000}}
    found = codes(store(server, bucket, archive(objects, records)))
    assert found.pop("k" * 1_025) == "KeyTooLongError"
    assert found == {
        "a": None,
        "b": None,
        "grant": "AccessControlListNotSupported",
        "class": "InvalidStorageClass",
        "meta": "MetadataTooLarge",
    }
    assert content(s3, bucket) == {"a": b"a", "b": b"b"}


def test_each_object_asks_for_its_own_right(server, s3, alt, bucket):
    objects = {"public/a": b"a", "private/a": b"b", "public/b": b"c"}
    assert refusal(server, bucket, archive(objects), server.alt)[:2] == (403, "AccessDenied"), "no policy can let it in"
    second = {"CanonicalUser": alt.list_buckets()["Owner"]["ID"]}

    def allow(action: str, resource: str) -> None:
        one = {"Effect": "Allow", "Principal": second, "Action": action, "Resource": f"arn:aws:s3:::{bucket}/{resource}"}
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [one]}))

    allow("s3:GetObject", "*")
    assert set(codes(store(server, bucket, archive(objects), server.alt)).values()) == {"AccessDenied"}
    allow("s3:PutObject", "public/*")
    assert codes(store(server, bucket, archive(objects), server.alt)) == {"public/a": None, "private/a": "AccessDenied", "public/b": None}
    tagged = archive({"public/c": b"c"}, {"public/c": {"x-amz-tagging": "a=b"}})
    assert codes(store(server, bucket, tagged, server.alt)) == {"public/c": "AccessDenied"}, "tags need a right of their own"
    assert content(s3, bucket) == {"public/a": b"a", "public/b": b"c"}


def test_policies_see_the_client_of_the_request(server, s3, alt, bucket):
    second = {"CanonicalUser": alt.list_buckets()["Owner"]["ID"]}

    def allow(condition: dict) -> None:
        one = {"Effect": "Allow", "Principal": second, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*", "Condition": condition}
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [one]}))

    body = archive({"a": b"a"})
    for name, value, condition in (
        ("User-Agent", "good/1", {"StringLike": {"aws:UserAgent": "good/*"}}),
        ("Referer", "https://example.org/", {"StringLike": {"aws:Referer": "https://example.org/*"}}),
        ("X-Amz-Content-SHA256", hashlib.sha256(body).hexdigest(), {"StringLike": {"s3:x-amz-content-sha256": hashlib.sha256(body).hexdigest()[:9] + "*"}}),
    ):
        allow(condition)
        assert codes(store(server, bucket, body, server.alt, **{name: value})) == {"a": None}, name
        if name != "X-Amz-Content-SHA256":
            assert codes(store(server, bucket, body, server.alt, **{name: "bad"})) == {"a": "AccessDenied"}, name
    assert codes(store(server, bucket, archive({"b": b"b"}), server.alt)) == {"b": "AccessDenied"}


def test_headers_that_can_not_hold_for_all_objects_are_refused(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"first")
    body = archive({"a": b"second"})
    for name in ("If-Match", "x-amz-grant-read", "x-amz-copy-source", "x-amz-write-offset-bytes", "x-amz-website-redirect-location"):
        status, code, message = refusal(server, bucket, body, **{name: "x"})
        assert (status, code) == (400, "InvalidRequest") and name.lower() in message
    assert content(s3, bucket) == {"a": b"first"}


def test_keys_may_be_far_longer_with_the_prefix(server, s3, bucket):
    few = archive({str(number): b"" for number in range(40)})
    assert refusal(server, bucket, few, query="store&prefix=" + "p" * 1_025)[:2] == (400, "KeyTooLongError")
    result = store(server, bucket, few, query="store&prefix=" + "p" * 1_020)
    assert result["stored"] == 40 and result["objects"][7]["key"] == "p" * 1_020 + "7"
    assert s3.get_object(Bucket=bucket, Key="p" * 1_020 + "39")["Body"].read() == b""
    # The result, of 32 MB, is written while it is sent.
    many = archive({str(number): b"" for number in range(30_000)})
    result = store(server, bucket, many, query="store&prefix=" + "p" * 1_024)
    assert result["failed"] == 30_000 and {line["code"] for line in result["objects"]} == {"KeyTooLongError"}
    assert [line["key"] for line in result["objects"]] == ["p" * 1_024 + str(number) for number in range(30_000)]


def test_objects_may_have_many_headers(server, s3, bucket):
    headers = {f"x-amz-meta-{number}": "" for number in range(80)}
    body = archive({str(number): b"" for number in range(300)}, {str(number): headers for number in range(300)})
    assert store(server, bucket, body)["stored"] == 300
    assert len(s3.head_object(Bucket=bucket, Key="299")["Metadata"]) == 80


def test_an_archive_that_never_fits_into_memory_is_refused_for_good(own):
    # The least that a server needs: the settings of the archive, and the server itself.
    (own.archive / "service.toml").write_text("memory_mib = 900\n")
    with own:
        connect(own.server, own.account).create_bucket(Bucket="survey")
        status, code, message = refusal(own.server, "survey", archive({"a": bytes(15_000_000)}))
        assert (status, code) == (400, "MaxMessageLengthExceeded") and "memory_mib" in message
        assert store(own.server, "survey", archive({"a": bytes(5_000_000)}))["stored"] == 1


def test_a_bulk_put_has_to_be_signed_whatever_a_policy_allows(wire, server, s3, bucket):
    one = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [one]}))
    body = archive({"a": b"a"})
    reply = wire.send("POST", f"/{bucket}?store", body=body, anonymous=True)
    assert (reply.status, reply.code) == (403, "AccessDenied")
    reply = wire.send("POST", f"/{bucket}?store", body=body, tamper=lambda fields: fields.update(Authorization=fields["Authorization"][:-1] + "x"))
    assert (reply.status, reply.code) == (403, "SignatureDoesNotMatch")
    reply = wire.send("POST", f"/{bucket}/key?store", body=body)
    assert (reply.status, reply.code) == (405, "MethodNotAllowed")
    assert refusal(server, bucket + "-none", body)[:2] == (404, "NoSuchBucket")
    assert content_keys(s3, bucket) == []


def test_an_archive_is_checked_before_anything_is_stored(wire, server, s3, bucket):
    objects = {f"{index}": random.Random(index).randbytes(3_000) for index in range(20)}
    body = archive(objects)
    wrong = bytearray(body)
    wrong[len(wrong) // 2] ^= 1
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    assert refusal(server, bucket, bytes(wrong), **{"Content-MD5": md5})[:2] == (400, "BadDigest")
    assert refusal(server, bucket, bytes(wrong), **{"x-amz-checksum-crc32": checksum("CRC32", body)})[:2] == (400, "BadDigest")
    reply = wire.send("POST", f"/{bucket}?store", body=body, payload=hashlib.sha256(bytes(wrong)).hexdigest())
    assert (reply.status, reply.code) == (400, "XAmzContentSHA256Mismatch")
    for malformed in (b"", b"PK", body[:-10_000], body[:5_000], body + body, bytes(1024) + body, body[512:]):
        status, code, message = refusal(server, bucket, malformed)
        assert (status, code) == (400, "MalformedTar") and "Nothing was stored" in message, malformed[:10]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for body_of in (b"one", b"two"):
            entry = tarfile.TarInfo("same")
            entry.size = 3
            tar.addfile(entry, io.BytesIO(body_of))
    assert refusal(server, bucket, out.getvalue())[1] == "MalformedTar"
    assert content_keys(s3, bucket) == []
    # It is told from what is announced, before any of it is read.
    fields = {"Content-Length": str((16 << 20) + 1)}
    reply = wire.send("POST", f"/{bucket}?store", fields, payload="UNSIGNED-PAYLOAD")
    assert (reply.status, reply.code) == (400, "MaxMessageLengthExceeded")
    assert store(server, bucket, body)["stored"] == 20


def test_a_bucket_with_object_lock_keeps_what_is_stored(server, s3, make_bucket):
    locked = make_bucket(ObjectLockEnabledForBucket=True)
    until = "2099-01-01T00:00:00Z"
    records = {"own": {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": until}}
    found = store(server, locked, archive({"own": b"a", "shared": b"b"}, records), **{"x-amz-object-lock-legal-hold": "ON"})
    assert found["failed"] == 0
    own, shared = (s3.head_object(Bucket=locked, Key=key) for key in ("own", "shared"))
    assert own["ObjectLockMode"] == "GOVERNANCE" and "ObjectLockMode" not in shared
    assert own["ObjectLockLegalHoldStatus"] == shared["ObjectLockLegalHoldStatus"] == "ON"
    for key in ("own", "shared"):
        s3.put_object_legal_hold(Bucket=locked, Key=key, LegalHold={"Status": "OFF"})


def test_what_a_bulk_get_returns_can_be_stored(server, s3, bucket):
    objects = {f"{index}": random.Random(index).randbytes(index) for index in range(50)}
    store(server, bucket, archive(objects))
    got = ask(server, bucket, json.dumps({"objects": list(objects)}).encode()).read()
    assert store(server, bucket, got, query="store&prefix=copy%2F")["stored"] == 51
    kept = content(s3, bucket)
    assert {key: kept[f"copy/objects/{key}"] for key in objects} == objects and "copy/result.json" in kept


def test_many_bulk_puts_at_once(server, s3, bucket):
    batches = [{f"{batch}/{index}": random.Random(index).randbytes(2_000) for index in range(500)} for batch in range(12)]
    with ThreadPoolExecutor(12) as pool:
        results = list(pool.map(lambda objects: store(server, bucket, archive(objects)), batches))
    assert all(result["stored"] == 500 for result in results)
    assert len([page for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)]) == 6
    sample = random.Random(3).sample([item for batch in batches for item in batch.items()], 40)
    assert all(s3.get_object(Bucket=bucket, Key=key)["Body"].read() == body for key, body in sample)


@pytest.fixture
def own(tmp_path) -> Own:
    """A server of one's own, on an archive with one store, that is not started yet."""
    own = Own(tmp_path)
    made = subprocess.run([str(own.program), "init", str(own.archive), f"--store={own.archive / 'd1'}", "--set", "1+0"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return own


def test_what_is_acknowledged_survives_a_kill(own):
    own.start()
    try:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="survey")
        sent: dict[str, bytes] = {}
        acknowledged_in_all = 0
        for kill in range(8):
            objects = {f"{kill}/{index}": random.Random(index + 1_000 * kill).randbytes(3_000) for index in range(900)}
            body, acknowledged = archive(objects), set()
            # Every other time the kill comes right after the answer, otherwise somewhere before it.
            killer = threading.Timer(random.Random(kill).random() * 0.25, own.kill) if kill % 2 else None
            if killer:
                killer.start()
            try:
                acknowledged = {line["key"] for line in store(own.server, "survey", body)["objects"] if "etag" in line}
            except (OSError, AssertionError, ValueError, http.client.HTTPException):
                assert killer, "without a kill it is answered"
            if killer:
                killer.join()
            else:
                own.kill()
            own.start()
            # The client sends it again. What was acknowledged is there, and never stored a second time.
            again = store(own.server, "survey", body, **{"If-None-Match": "*"})["objects"]
            assert {line.get("code") for line in again} <= {None, "PreconditionFailed"}
            assert acknowledged <= {line["key"] for line in again if "code" in line}
            acknowledged_in_all += len(acknowledged)
            sent |= objects
        assert acknowledged_in_all >= 4 * 900
        assert content(connect(own.server, own.account), "survey") == sent
        own.stop()
    finally:
        own.kill()
