"""Many objects with one request: `POST /bucket?retrieve` with a list of keys is answered with a tar archive, whose last entry says what became of each.

An operation of Fulgurite's running, so there is no other server to hold it against. Requests are signed by botocore, answers are read by Python's tarfile.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import os
import random
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from digests import checksum, content_md5
from serving import START_S, Serving, connect
from test_keys import ODD
from test_storage_classes import restore, wait
from wire import ANSWER_S, Account, Server, Wire

pytestmark = pytest.mark.skipif("S3_ENDPOINT" in os.environ, reason="no other server has it")
XATTR = "SCHILY.xattr.user.fulgurite."


@dataclass(frozen=True)
class BulkGet:
    """An answer that was read to its end: what is in it by name of its entry, what the headers say, and the result."""

    content: dict[str, bytes]
    entries: dict[str, tarfile.TarInfo]
    result: dict

    @property
    def failed(self) -> dict[str, str]:
        return {line["key"]: line["code"] for line in self.result["objects"] if "code" in line}


def ask(server: Server, bucket: str, body: bytes, account: Account | None = None, query: str = "retrieve", **fields: str) -> http.client.HTTPResponse:
    """Sends a request and reads the head of the answer."""
    account = account or server.main
    signed = AWSRequest("POST", f"{server.endpoint}/{bucket}?{query}", data=body, headers={**fields})
    S3SigV4Auth(Credentials(account.access_key, account.secret_key), "s3", server.region).add_auth(signed)
    connection = http.client.HTTPConnection(urlsplit(server.endpoint).netloc, timeout=ANSWER_S)
    connection.request("POST", f"/{bucket}?{query}", body, dict(signed.headers))
    return connection.getresponse()


def order(server: Server, bucket: str, objects: list, account: Account | None = None) -> list:
    answer = ask(server, bucket, json.dumps({"objects": objects}).encode(), account, "order&retrieve")
    body = answer.read()
    assert (answer.status, answer.getheader("Content-Type")) == (200, "application/json"), body
    return json.loads(body)["order"]


def retrieve(server: Server, bucket: str, objects: list, account: Account | None = None, **fields: str) -> BulkGet:
    answer = ask(server, bucket, json.dumps({"objects": objects}).encode(), account, **fields)
    body = answer.read()
    assert answer.status == 200, body
    assert answer.getheader("Content-Type") == "application/x-tar"
    return unpack(body)


def unpack(body: bytes) -> BulkGet:
    content, entries, order = {}, {}, []
    with tarfile.open(fileobj=io.BytesIO(body), mode="r|", encoding="utf-8", errors="strict") as tar:
        for entry in tar:
            assert entry.isreg() and entry.name not in entries
            content[entry.name], entries[entry.name] = tar.extractfile(entry).read(), entry
            order.append(entry.name)
    assert order[-1] == "result.json", "the result comes last"
    assert len(body) % 512 == 0 and body.endswith(bytes(1024)), "two blocks of zeros end it"
    result = json.loads(content.pop("result.json"))
    del entries["result.json"]
    lines = result["objects"]
    assert result["failed"] == sum("code" in line for line in lines)
    assert result["retrieved"] == sum("entry" in line for line in lines) == len(lines) - result["failed"]
    assert {line["entry"] for line in lines if "entry" in line} == set(content)
    for line in lines:
        if "entry" in line:
            assert line["size"] == len(content[line["entry"]])
    return BulkGet(content, entries, result)


def refusal(server: Server, bucket: str, body: bytes, account: Account | None = None, **fields: str) -> tuple[int, str]:
    answer = ask(server, bucket, body, account, **fields)
    text = answer.read().decode()
    return answer.status, text.partition("<Code>")[2].partition("</Code>")[0]


@pytest.fixture
def filled(s3, bucket) -> dict[str, bytes]:
    objects = {f"night/{index:03}": random.Random(index).randbytes(index * 97) for index in range(120)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: s3.put_object(Bucket=bucket, Key=item[0], Body=item[1]), objects.items()))
    return objects


def test_many_objects_come_with_one_request(server, s3, bucket, filled):
    keys = list(filled)
    random.Random(7).shuffle(keys)
    got = retrieve(server, bucket, keys)
    assert got.content == {f"objects/{key}": body for key, body in filled.items()}
    assert (got.result["bucket"], got.result["failed"]) == (bucket, 0)
    assert [line["key"] for line in got.result["objects"]] == keys, "lines come in the order of the request"
    for line in got.result["objects"]:
        assert line["etag"] == hashlib.md5(filled[line["key"]]).hexdigest() and "version_id" not in line
        entry = got.entries[line["entry"]]
        assert entry.pax_headers[XATTR + "etag"] == line["etag"]
    head = s3.head_object(Bucket=bucket, Key=keys[0])
    assert got.entries[f"objects/{keys[0]}"].mtime == head["LastModified"].timestamp()


def test_ranges_are_sent_alone(server, s3, versioned):
    body = random.Random(1).randbytes(3_000_000)
    version = s3.put_object(Bucket=versioned, Key="a", Body=body)["VersionId"]
    s3.put_object(Bucket=versioned, Key="empty", Body=b"")
    asked = [
        {"key": "a", "range": "bytes=0-9"},
        {"key": "a", "range": "bytes=1000000-2999998"},
        {"key": "a", "version_id": version, "range": "bytes=-5"},
        {"key": "a", "range": "bytes=3000000-"},
        {"key": "empty", "range": "bytes=0-"},
        {"key": "a", "range": "bytes=0-9"},
        {"key": "a", "range": None},
        {"key": "../a", "range": "bytes=0-"},
    ]
    got = retrieve(server, versioned, asked)
    assert got.content == {
        "ranges/0-9/objects/a": body[:10],
        "ranges/1000000-2999998/objects/a": body[1_000_000:2_999_999],
        f"ranges/-5/versions/{version}/a": body[-5:],
        "objects/a": body,
    }
    lines = got.result["objects"]
    assert [line.get("code") for line in lines] == [None, None, None, "InvalidRange", "InvalidRange", None, None, "NoSuchKey"]
    assert [line.get("range") for line in lines] == ["bytes 0-9", "bytes 1000000-2999998", "bytes 2999995-2999999", None, None, "bytes 0-9", None, None]
    assert got.entries["ranges/0-9/objects/a"].pax_headers[XATTR + "range"] == "bytes 0-9/3000000"
    assert XATTR + "range" not in got.entries["objects/a"].pax_headers
    for wrong in ("bytes=9-0", "0-9", "bytes=0-1,3-4", ""):
        assert refusal(server, versioned, json.dumps({"objects": [{"key": "a", "range": wrong}]}).encode()) == (400, "MalformedJSON")


def test_the_order_of_a_list_is_that_of_the_archive(server, s3, alt, bucket, filled):
    keys = list(filled)
    random.Random(7).shuffle(keys)
    asked = keys + ["missing", {"key": keys[0], "range": "bytes=0-9"}]
    found = order(server, bucket, asked)
    assert found[len(keys)] is None and len(found) == len(asked)
    places = dict(zip(keys, found, strict=False))
    assert {key: size for key, (_, size) in places.items()} == {key: len(body) for key, body in filled.items()}
    assert len({position for position, _ in places.values()}) == len(keys)
    first = keys[0]
    assert found[-1] is None if len(filled[first]) == 0 else found[-1] == [places[first][0], min(10, len(filled[first]))]
    retrieved = list(retrieve(server, bucket, keys).content)
    assert retrieved == [f"objects/{key}" for key in sorted(keys, key=lambda key: places[key])], "objects come in that order"
    assert order(server, bucket, []) == []
    assert refusal(server, bucket, b"{}", None) == (400, "MalformedJSON")
    answer = ask(server, bucket, b'{"objects": []}', Account(*connect_keys(alt)), "order&retrieve")
    assert answer.status == 403, "another account learns nothing"


def connect_keys(client) -> tuple[str, str]:
    keys = client._request_signer._credentials
    return keys.access_key, keys.secret_key


def test_an_empty_list_has_an_empty_result(server, bucket):
    got = retrieve(server, bucket, [])
    assert got.content == {} and got.result == {"bucket": bucket, "retrieved": 0, "failed": 0, "objects": []}


def test_what_is_not_there_has_a_line_and_the_rest_comes(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="there", Body=b"there")
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    got = retrieve(server, bucket, ["missing", "there", "", "x" * 5000, "empty", {"key": "there", "version_id": "0" * 32}])
    assert got.content == {"objects/there": b"there", "objects/empty": b""}
    lines = got.result["objects"]
    assert [line.get("code") for line in lines] == ["NoSuchKey", None, "NoSuchKey", "NoSuchKey", None, "NoSuchVersion"]
    assert all(line["message"] for line in lines if "code" in line)


def test_versions_are_named_and_markers_have_no_content(server, s3, versioned):
    old, new = (s3.put_object(Bucket=versioned, Key="a", Body=body)["VersionId"] for body in (b"old", b"new"))
    kept = s3.put_object(Bucket=versioned, Key="gone", Body=b"kept")["VersionId"]
    marker = s3.delete_object(Bucket=versioned, Key="gone")["VersionId"]
    asked = ["a", {"key": "a", "version_id": old}, {"key": "gone"}, {"key": "gone", "version_id": kept}]
    asked += [{"key": "gone", "version_id": marker}, {"key": "a", "version_id": kept}, {"key": "a", "version_id": "no version"}]
    got = retrieve(server, versioned, asked)
    assert got.content == {"objects/a": b"new", f"versions/{old}/a": b"old", f"versions/{kept}/gone": b"kept"}
    lines = got.result["objects"]
    assert [line["version_id"] for line in lines[:2]] == [new, old]
    assert [line.get("code") for line in lines[2:]] == ["NoSuchKey", None, "MethodNotAllowed", "NoSuchVersion", "InvalidArgument"]
    assert [line.get("version_id") for line in lines[3:]] == [kept, marker, kept, "no version"]
    assert got.entries["objects/a"].pax_headers[XATTR + "version-id"] == new


def test_the_null_version_is_named_as_such(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"null")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    new = s3.put_object(Bucket=bucket, Key="a", Body=b"new")["VersionId"]
    got = retrieve(server, bucket, ["a", {"key": "a", "version_id": "null"}])
    assert got.content == {"objects/a": b"new", "versions/null/a": b"null"}
    assert [line["version_id"] for line in got.result["objects"]] == [new, "null"]


def test_what_is_asked_for_twice_comes_once_and_has_two_lines(server, s3, bucket):
    for key in ("a", "b", "empty"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"" if key == "empty" else key.encode())
    got = retrieve(server, bucket, ["a", "b", "a", "empty", "empty", "missing", "missing", {"key": "a"}])
    assert got.content == {"objects/a": b"a", "objects/b": b"b", "objects/empty": b""}
    assert got.result["retrieved"] == 6 and got.failed == {"missing": "NoSuchKey"}


def test_what_is_archived_is_refused_before_its_restore(server, s3, bucket):
    for key, storage_class in (("cold", "GLACIER"), ("colder", "DEEP_ARCHIVE"), ("warm", "GLACIER_IR")):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode(), StorageClass=storage_class)
    got = retrieve(server, bucket, ["cold", "colder", "warm"])
    assert got.content == {"objects/warm": b"warm"}
    assert got.failed == {"cold": "InvalidObjectState", "colder": "InvalidObjectState"}
    restore(s3, {"Bucket": bucket, "Key": "cold"})
    wait(s3, {"Bucket": bucket, "Key": "cold"})
    assert retrieve(server, bucket, ["cold"]).content == {"objects/cold": b"cold"}


def test_each_object_asks_for_its_own_right(server, s3, alt, versioned):
    ids = {key: s3.put_object(Bucket=versioned, Key=key, Body=key.encode())["VersionId"] for key in ("public/a", "private/a")}
    everything = ["public/a", "private/a", "public/missing", {"key": "public/a", "version_id": ids["public/a"]}]
    assert refusal(server, versioned, b'{"objects": ["public/a"]}', server.alt) == (403, "AccessDenied"), "no policy can let it in"

    def allow(*actions: str, effect: str = "Allow") -> None:
        second = {"CanonicalUser": alt.list_buckets()["Owner"]["ID"]}
        resources = [f"arn:aws:s3:::{versioned}", f"arn:aws:s3:::{versioned}/public/*"]
        one = {"Effect": effect, "Principal": second, "Action": list(actions), "Resource": resources}
        s3.put_bucket_policy(Bucket=versioned, Policy=json.dumps({"Version": "2012-10-17", "Statement": [one]}))

    def codes(account: Account) -> list[str | None]:
        return [line.get("code") for line in retrieve(server, versioned, everything, account).result["objects"]]

    denied = "AccessDenied"
    allow("s3:PutObject")
    assert codes(server.alt) == [denied] * 4
    allow("s3:GetObject")
    assert codes(server.alt) == [None, denied, denied, denied], "whoever may not list is not told what is missing"
    allow("s3:GetObject", "s3:ListBucket")
    assert codes(server.alt) == [None, denied, "NoSuchKey", denied]
    allow("s3:GetObjectVersion")
    assert codes(server.alt) == [denied, denied, denied, None]
    assert codes(server.main) == [None, None, "NoSuchKey", None]


def test_a_bulk_get_has_to_be_signed_whatever_a_policy_allows(wire, server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    one = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [one]}))
    body = b'{"objects": ["a"]}'
    reply = wire.send("POST", f"/{bucket}?retrieve", body=body, anonymous=True)
    assert (reply.status, reply.code) == (403, "AccessDenied")
    reply = wire.send("POST", f"/{bucket}?retrieve", body=body, tamper=lambda fields: fields.update(Authorization=fields["Authorization"][:-1] + "x"))
    assert (reply.status, reply.code) == (403, "SignatureDoesNotMatch")
    stranger = Account(server.main.access_key[:-1] + "_", server.main.secret_key)
    assert refusal(server, bucket, body, stranger) == (403, "InvalidAccessKeyId")
    assert retrieve(server, bucket, ["a"], server.alt).content == {"objects/a": b"a"}


def test_odd_keys_come_back_under_names_that_are_safe_to_unpack(server, s3, bucket, tmp_path):
    keys = [*ODD, "ü" * 300, "deep/" * 100 + "end", "x/../../../outside"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    got = retrieve(server, bucket, keys)
    assert got.result["failed"] == 0 and len(got.content) == len(keys)
    for line in got.result["objects"]:
        assert got.content[line["entry"]] == line["key"].encode()
        folder, _, rest = line["entry"].partition("/")
        said = got.entries[line["entry"]].pax_headers.get(XATTR + "key")
        assert not {".", ".."} & set(line["entry"].split("/"))
        assert (folder, rest, said) == ("objects", line["key"], None) or (folder, said) == ("encoded", line["key"])
        # Where Python lets it be unpacked, nothing lies outside of the folder.
        tarfile.data_filter(got.entries[line["entry"]], str(tmp_path))
    for key in ("../../../../etc/passwd", "/leading", "a//b", "trailing/", "a/..", "back\\slash", "\x01\x1f"):
        assert not any(line["entry"].startswith("objects/") for line in got.result["objects"] if line["key"] == key)
    for key in ("日本語/キー", "ü" * 300, "deep/" * 100 + "end", "%41%2f%00"):
        assert got.content[f"objects/{key}"] == key.encode()


def test_other_programs_unpack_it_without_a_word(server, s3, bucket, tmp_path):
    content = {"a/b": b"b" * 70_000, "ü" * 80: b"name", "../up": b"up"}
    for key, body in content.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    body = ask(server, bucket, json.dumps({"objects": list(content)}).encode()).read()
    unpacked = subprocess.run(["tar", "-x", "-C", tmp_path], input=body, capture_output=True, check=True)
    assert unpacked.stderr == b""
    found = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert json.loads(found.pop("result.json"))["retrieved"] == 3
    assert found == {"objects/a/b": b"b" * 70_000, f"objects/{'ü' * 80}": b"name", "encoded/objects/..%2Fup": b"up"}


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"objects": "a"}', b'{"objects": [1]}', b'{"objects": [{}]}', b'{"objects": ["a"', b'{"objects": ["\xff"]}']
    + [b'{"objects": ["a"], "more": 1}', b'{"objects": [{"key": "a", "versionId": "b"}]}', b"[" * 10_000, b"<Delete/>"],
)
def test_a_list_that_is_none_is_refused(server, s3, bucket, body):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    assert refusal(server, bucket, body) == (400, "MalformedJSON")


def test_a_list_that_is_too_long_is_refused(wire, server, bucket):
    body = json.dumps({"objects": [""] * 100_000}).encode()
    answer = ask(server, bucket, body)
    assert answer.status == 200 and unpack(answer.read()).result["failed"] == 100_000
    assert refusal(server, bucket, json.dumps({"objects": [""] * 100_001}).encode()) == (400, "InvalidRequest")
    # It is told from what is announced, before any of it is read.
    fields = {"Content-Length": str((16 << 20) + 1)}
    reply = wire.send("POST", f"/{bucket}?retrieve", fields, payload="UNSIGNED-PAYLOAD")
    assert (reply.status, reply.code) == (400, "MaxMessageLengthExceeded")


def test_the_digest_of_a_list_is_checked(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    body = b'{"objects": ["a"]}'
    for fields in ({"Content-MD5": content_md5(body)}, {"x-amz-checksum-crc32": checksum("CRC32", body)}):
        assert unpack(ask(server, bucket, body, **fields).read()).content == {"objects/a": b"a"}
    assert refusal(server, bucket, body, **{"Content-MD5": content_md5(b"other")}) == (400, "BadDigest")
    assert refusal(server, bucket, body, **{"x-amz-checksum-crc32": checksum("CRC32", b"other")}) == (400, "BadDigest")


def test_a_bulk_get_needs_an_existing_bucket(wire, server, bucket, bucket_name):
    body = b'{"objects": []}'
    assert refusal(server, bucket_name, body) == (404, "NoSuchBucket")
    assert refusal(server, "No_Bucket", body) == (400, "InvalidBucketName")
    assert wire.send("POST", f"/{bucket}/key?retrieve", body=body).code == "MethodNotAllowed"
    assert wire.send("POST", "/?retrieve", body=body).code == "MethodNotAllowed"
    other = {"x-amz-expected-bucket-owner": "0" * 64}
    assert refusal(server, bucket, body, **other) == (403, "AccessDenied")


def test_the_name_of_the_operation_may_be_encoded(wire, bucket, s3):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    body = b'{"objects": ["a"]}'
    for query, canonical in (("%72etrieve", "retrieve="), ("retriev%65=", "retrieve="), ("retrieve=1", "retrieve=1")):
        sealed = wire.seal("POST", f"/{bucket}?{canonical}", {}, "UNSIGNED-PAYLOAD", wire.signer())
        reply = wire.send("POST", f"/{bucket}?{query}", sealed, body, anonymous=True)
        assert reply.status == 200 and unpack(reply.body).content == {"objects/a": b"a"}, query


def test_a_bulk_get_accepts_a_presigned_url(wire, bucket, s3):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    target = wire.signer().presign("POST", f"/{bucket}?retrieve", wire.host, 60)
    reply = wire.send("POST", target, body=b'{"objects": ["a"]}', anonymous=True)
    assert reply.status == 200 and unpack(reply.body).content == {"objects/a": b"a"}


def test_what_is_on_platters_comes_beside_what_is_staged(running):
    client = connect(running.server, running.account)
    client.create_bucket(Bucket="photos")
    content = {f"{index:04}": random.Random(index).randbytes(15_000 if index % 50 else 1_500_000) for index in range(300)}
    archived, staged = list(content)[:200], list(content)[200:]
    for key in archived:
        client.put_object(Bucket="photos", Key=key, Body=content[key])
    running.stop()
    subprocess.run(running.command("flush"), check=True, capture_output=True, timeout=START_S)
    running.start()
    client = connect(running.server, running.account)
    for key in staged:
        client.put_object(Bucket="photos", Key=key, Body=content[key])
    keys = list(content)
    random.Random(1).shuffle(keys)
    got = retrieve(running.server, "photos", [*keys, "missing"])
    assert got.failed == {"missing": "NoSuchKey"}
    assert got.content == {f"objects/{key}": body for key, body in content.items()}
    names = list(got.content)
    # What is staged comes as it was put, what is archived as it lies on the platters of its set, which took turns.
    assert names[:100] == [f"objects/{key}" for key in staged]
    turns = sum(later < earlier for earlier, later in zip(names[100:], names[101:], strict=False))
    assert turns <= 1, "each platter is read once, from front to back"


def segment(archive: Path) -> Path:
    [path] = (path for path in (archive / "staging").glob("*.segment") if path.read_bytes().count(b"FREC"))
    return path


def staged(archive: Path) -> int:
    """Where what comes next is written. The file has room for more."""
    return len(segment(archive).read_bytes().rstrip(b"\0"))


def damage(archive: Path, start: int) -> None:
    with open(segment(archive), "r+b") as file:
        file.seek(start)
        changed = bytes(byte ^ 0x55 for byte in file.read(100))
        file.seek(start)
        file.write(changed)


def test_a_small_object_that_cannot_be_read_is_a_line_of_the_result(running):
    client = connect(running.server, running.account)
    client.create_bucket(Bucket="photos")
    client.put_object(Bucket="photos", Key="before", Body=b"before")
    start = staged(running.archive)
    client.put_object(Bucket="photos", Key="damaged", Body=bytes(500_000))
    client.put_object(Bucket="photos", Key="after", Body=b"after")
    damage(running.archive, start + 250_000)
    got = retrieve(running.server, "photos", ["damaged", "before", "after", "damaged"])
    assert got.content == {"objects/before": b"before", "objects/after": b"after"}
    assert got.failed == {"damaged": "InternalError"} and got.result["failed"] == 2


def test_a_large_object_that_cannot_be_read_on_ends_the_answer_without_its_end(running):
    client = connect(running.server, running.account)
    client.create_bucket(Bucket="photos")
    body = random.Random(3).randbytes(4_000_000)
    client.put_object(Bucket="photos", Key="damaged", Body=body)
    damage(running.archive, 3_000_000)
    answer = ask(running.server, "photos", b'{"objects": ["damaged"]}')
    assert answer.status == 200
    with pytest.raises(http.client.IncompleteRead) as caught:
        answer.read()
    sent = caught.value.partial
    assert b"result.json" not in sent
    with tarfile.open(fileobj=io.BytesIO(sent), mode="r|") as tar, pytest.raises(tarfile.ReadError):
        for entry in tar:
            assert entry.name == "objects/damaged"
            got = tar.extractfile(entry).read()
            assert body.startswith(got), "no wrong byte was sent"
            assert len(got) == len(body), "tar notices that bytes are missing"
    assert "a bulk get ended early" in running.log.read_text()
    # The server goes on.
    assert retrieve(running.server, "photos", []).result["failed"] == 0


def test_short_bulk_gets_and_reads_go_on_beside_long_ones_that_nobody_reads(running):
    client = connect(running.server, running.account)
    client.create_bucket(Bucket="photos")
    body = random.Random(5).randbytes(1_000_000)
    keys = [f"{index:03}" for index in range(40)]
    for key in keys:
        client.put_object(Bucket="photos", Key=key, Body=body)
    asked = json.dumps({"objects": keys}).encode()
    waiting = [ask(running.server, "photos", asked) for _ in range(48)]
    assert {answer.status for answer in waiting} == {200}
    assert len(retrieve(running.server, "photos", keys[:3]).content) == 3
    assert client.get_object(Bucket="photos", Key=keys[0])["Body"].read() == body
    for answer in waiting[:4]:
        assert len(unpack(answer.read()).content) == 40
    for answer in waiting[4:]:
        answer.close()


def announce(server: Server, bucket: str, length: int, begin: bytes = b"") -> tuple[http.client.HTTPConnection, bytes]:
    """Says how long a list will be, waits for the first answer, and sends what it begins with."""
    wire = Wire(server)
    fields = {"Host": wire.host, "Content-Length": str(length), "Expect": "100-continue"}
    sealed = wire.seal("POST", f"/{bucket}?retrieve", fields, "UNSIGNED-PAYLOAD", wire.signer())
    connection = http.client.HTTPConnection(wire.host, timeout=ANSWER_S)
    connection.connect()
    head = f"POST /{bucket}?retrieve HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sealed.items()) + "\r\n"
    connection.sock.sendall(head.encode())
    answer = connection.sock.recv(2000)
    if answer.startswith(b"HTTP/1.1 100"):
        connection.sock.sendall(begin)
    return connection, answer


def test_lists_that_are_announced_and_do_not_come_take_no_memory_from_others(running):
    connect(running.server, running.account).create_bucket(Bucket="photos")
    held = [announce(running.server, "photos", 16 << 20, b"{") for _ in range(12)]
    assert all(answer.startswith(b"HTTP/1.1 100") for _, answer in held)
    assert retrieve(running.server, "photos", ["missing"] * 100_000).result["failed"] == 100_000
    for connection, _ in held:
        connection.close()


def test_bulk_gets_beyond_the_shared_memory_get_503(running):
    connect(running.server, running.account).create_bucket(Bucket="photos")
    length = 16 << 20
    # All but the last byte of each.
    held = [announce(running.server, "photos", length, b" " * (length - 1)) for _ in range(4)]
    end = time.monotonic() + ANSWER_S
    while True:
        connection, answer = announce(running.server, "photos", length)
        connection.close()
        if not answer.startswith(b"HTTP/1.1 100"):
            break
        assert time.monotonic() < end, "the lists that have come hold memory"
    assert answer.startswith(b"HTTP/1.1 503") and b"retry-after: 5" in answer and b"SlowDown" in answer
    assert retrieve(running.server, "photos", []).result["retrieved"] == 0, "there is room for short lists"
    for connection, _ in held:
        connection.close()
    end = time.monotonic() + ANSWER_S
    while (answer := ask(running.server, "photos", b'{"objects": []}' + b" " * (length - 15))).status == 503:
        assert time.monotonic() < end, "what clients hold that went away is given back"
    assert unpack(answer.read()).result["failed"] == 0
