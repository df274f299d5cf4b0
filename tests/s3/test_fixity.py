"""When each copy of an object was last read and found good: `GET /bucket/key?fixity`.

An operation of Fulgurite's own, so there is no other server to hold it against. For access it is a GetObject.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from serving import Own, connect, wait_until
from test_bulk_put import archive, store
from test_forms import post
from wire import ANSWER_S, SIGNED_CHUNKS, Account, Server

pytestmark = pytest.mark.skipif("S3_ENDPOINT" in os.environ, reason="no other server has it")
CONTENT = bytes(range(256)) * 2_048


def ask(server: Server, bucket: str, key: str, account: Account | None, query: str = "fixity", method: str = "GET") -> tuple[int, dict, bytes]:
    path = f"/{bucket}/{quote(key)}?{query}"
    request = AWSRequest(method, server.endpoint + path)
    if account:
        S3SigV4Auth(Credentials(account.access_key, account.secret_key), "s3", server.region).add_auth(request)
    connection = http.client.HTTPConnection(urlsplit(server.endpoint).netloc, timeout=ANSWER_S)
    connection.request(method, path, headers=dict(request.headers))
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def fixity(server: Server, bucket: str, key: str, query: str = "fixity", account: Account | None = None) -> dict:
    status, headers, body = ask(server, bucket, key, account or server.main, query)
    assert status == 200, body
    assert headers["content-type"] == "application/json"
    return json.loads(body)


def code(answer: tuple[int, dict, bytes]) -> tuple[int, str]:
    status, _, body = answer
    return status, body.decode().partition("<Code>")[2].partition("</Code>")[0]


def date(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


@pytest.fixture
def own_with_object(tmp_path):
    own = Own(tmp_path)
    with own:
        connect(own.server, own.account).create_bucket(Bucket="plain")
        connect(own.server, own.account).put_object(Bucket="plain", Key="a key", Body=CONTENT)
    # So that only commands read, and nothing else changes dates or repairs.
    settings = own.archive / "service.toml"
    settings.write_text(settings.read_text().replace("every_days = 30", "every_days = 0"))
    with own:
        # A server that answers requests takes commands, too.
        assert own.get("/-/health")[0] == 200
        yield own


def test_a_staged_copy_is_dated_once_it_was_read(own_with_object):
    own = own_with_object
    before = datetime.now(timezone.utc).replace(microsecond=0)
    assert own.run("verify").returncode == 0
    found = fixity(own.server, "plain", "a key")
    assert (found["bucket"], found["key"], found["version_id"], found["bytes"]) == ("plain", "a key", None, len(CONTENT))
    assert found["digests"] == {"sha256": hashlib.sha256(CONTENT).hexdigest()}
    [copy] = found["copies"]
    assert (copy["kind"], copy["state"], copy["damaged"]) == ("staged", "good", None)
    assert before <= date(copy["verified"]) <= datetime.now(timezone.utc)
    assert found["oldest_verified"] == copy["verified"]
    assert (found["platters_to_spare"], found["sets"]) == (None, [])


SIZES = [0, 1, 3_000, 20_000, 65_536, 131_072, 200_000, 3_000_001]


def test_the_recorded_digest_is_that_of_the_content_however_it_was_put(server, wire, s3, bucket):
    """The server computes it of many uploads at once, apart from what it stores."""
    bodies = {size: random.Random(size).randbytes(size) for size in SIZES}
    expected = {}

    def put(way: str, size: int) -> None:
        key, body = f"{way}-{size}", bodies[size]
        expected[key] = body
        match way:
            case "plain":
                s3.put_object(Bucket=bucket, Key=key, Body=body)
            case "signed-chunks":
                chunks = [body[at : at + 65_536] for at in range(0, size, 65_536)]
                assert wire.send_chunks(f"/{bucket}/{key}", chunks, payload=SIGNED_CHUNKS).status == 200
            case "form":
                assert post(wire, s3.generate_presigned_post(bucket, key), body).status == 204
            case "parts":
                upload = {"Bucket": bucket, "Key": key, "UploadId": s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]}
                etag = s3.upload_part(**upload, PartNumber=1, Body=body)["ETag"]
                s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(lambda task: put(*task), [(way, size) for size in SIZES for way in ["plain", "signed-chunks", "form", "parts"]]))
    store(server, bucket, archive({f"bulk-{size}": body for size, body in bodies.items()}))
    expected |= {f"bulk-{size}": body for size, body in bodies.items()}
    for size, body in bodies.items():
        s3.copy_object(Bucket=bucket, Key=f"copy-{size}", CopySource={"Bucket": bucket, "Key": f"plain-{size}"})
        expected[f"copy-{size}"] = body
    digests = {key: fixity(server, bucket, key)["digests"]["sha256"] for key in expected}
    assert digests == {key: hashlib.sha256(body).hexdigest() for key, body in expected.items()}


def test_the_servers_own_cycle_dates_staged_copies(tmp_path):
    own = Own(tmp_path)
    with own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="plain")
        s3.put_object(Bucket="plain", Key="key", Body=CONTENT)
    with own:
        wait_until("the scrub reads staging", lambda: fixity(own.server, "plain", "key")["oldest_verified"] is not None)
        assert "fulgurite_scrub_staged_versions_total 0" not in own.get("/-/metrics")[1].splitlines()
        status = json.loads(own.run("--json", "status").stdout)
        assert status["server"]["scrub"]["every_days"] == 30


def test_an_archived_object_names_its_platters_and_what_may_be_lost(own_with_object):
    own = own_with_object
    assert own.run("flush").returncode == 0
    found = fixity(own.server, "plain", "a key")
    assert {copy["kind"] for copy in found["copies"]} == {"platter"}
    assert sum(copy["stored_bytes"] for copy in found["copies"]) == found["stored_bytes"]
    platters = {row["platter"]: row for row in map(json.loads, own.run("--json", "platters").stdout.splitlines())}
    for copy in found["copies"]:
        row = platters[copy["platter"]]
        assert [copy[name] for name in ("set", "position", "store")] == [row[name] for name in ("set", "position", "store")]
        assert (copy["state"], copy["last_check"]["found"], copy["repaired"]) == ("good", "good", None)
        assert date(copy["verified"]).timestamp() == row["verified"]
    [in_set] = found["sets"]
    assert found["platters_to_spare"] == in_set["platters_to_spare"] == in_set["redundancy"]
    assert in_set["usable"] == in_set["information"] + in_set["redundancy"]
    assert date(found["oldest_verified"]) == min(date(copy["verified"]) for copy in found["copies"])


def test_damage_an_absence_and_a_repair_are_told_apart(own_with_object):
    own = own_with_object
    assert own.run("flush").returncode == 0
    before = fixity(own.server, "plain", "a key")["copies"][0]
    [file] = own.archive.rglob(f"*{before['platter']}*")
    content = bytearray(file.read_bytes())
    content[20_000] ^= 0x55
    file.write_bytes(content)
    assert own.run("verify").returncode == 1
    [damaged] = [copy for copy in fixity(own.server, "plain", "a key")["copies"] if copy["platter"] == before["platter"]]
    assert (damaged["state"], damaged["verified"]) == ("damaged", before["verified"]), "the earlier date stays"
    assert (damaged["last_check"]["found"], damaged["last_check"]["lost_sectors"]) == ("damaged", 1)
    assert own.run("fixity", "plain/a key").returncode == 1

    assert own.run("scrub").returncode == 0
    [repaired] = [copy for copy in fixity(own.server, "plain", "a key")["copies"] if copy["platter"] == before["platter"]]
    assert (repaired["state"], repaired["repaired"]["found"]) == ("good", "damaged")
    assert (repaired["repaired"]["lost_sectors"], repaired["repaired"]["from_set"]) == (1, before["set"])
    assert date(repaired["verified"]) >= date(repaired["repaired"]["at"])

    [disk] = [mark.parent for mark in own.archive.rglob("fulgurite-store") if repaired["platter"] in str(list(mark.parent.rglob("*")))]
    away = disk.with_name(f"{disk.name}-away")
    disk.rename(away)
    state = lambda: fixity(own.server, "plain", "a key")["copies"][0]
    wait_until("the store is noticed to be absent", lambda: state()["state"] == "absent")
    assert state()["verified"] == repaired["verified"]
    away.rename(disk)
    wait_until("the store is back", lambda: state()["state"] == "good")


def test_objects_of_a_cold_class_need_no_restore(own_with_object):
    own = own_with_object
    s3 = connect(own.server, own.account)
    s3.put_object(Bucket="plain", Key="cold", Body=CONTENT, StorageClass="GLACIER")
    assert own.run("flush").returncode == 0
    assert fixity(own.server, "plain", "cold")["copies"][0]["state"] == "good"


def test_each_version_has_its_own_copies(s3, server, versioned):
    ids = [s3.put_object(Bucket=versioned, Key="key", Body=body)["VersionId"] for body in (b"first", b"second!")]
    for version, size in zip(ids, (5, 7)):
        status, headers, body = ask(server, versioned, "key", server.main, f"fixity&versionId={version}")
        found = json.loads(body)
        assert (status, headers["x-amz-version-id"], found["version_id"], found["bytes"]) == (200, version, version, size)
    assert fixity(server, versioned, "key")["version_id"] == ids[1]
    assert fixity(server, versioned, "key", "fixity=")["version_id"] == ids[1]


def test_errors_are_those_of_a_get(s3, server, bucket, versioned):
    assert code(ask(server, bucket, "none", server.main)) == (404, "NoSuchKey")
    assert code(ask(server, "no-such-bucket-here", "key", server.main)) == (404, "NoSuchBucket")
    version = s3.put_object(Bucket=versioned, Key="key", Body=b"x")["VersionId"]
    assert code(ask(server, versioned, "key", server.main, "fixity&versionId=nonsense")) == (400, "InvalidArgument")
    other = ("0" if version[0] != "0" else "1") + version[1:]
    assert code(ask(server, versioned, "key", server.main, f"fixity&versionId={other}")) == (404, "NoSuchVersion")
    marker = s3.delete_object(Bucket=versioned, Key="key")["VersionId"]
    assert code(ask(server, versioned, "key", server.main)) == (404, "NoSuchKey")
    assert code(ask(server, versioned, "key", server.main, f"fixity&versionId={marker}")) == (405, "MethodNotAllowed")
    assert fixity(server, versioned, "key", f"fixity&versionId={version}")["bytes"] == 1


def test_only_callers_who_may_read_the_object_get_an_answer(s3, server, alt, versioned):
    version = s3.put_object(Bucket=versioned, Key="key", Body=b"x")["VersionId"]
    for account in (server.alt, None):
        for query in ("fixity", f"fixity&versionId={version}"):
            assert code(ask(server, versioned, "key", account, query)) == (403, "AccessDenied")
        assert code(ask(server, versioned, "none", account)) == (403, "AccessDenied"), "it must not tell what exists"
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{versioned}/*"}
    s3.put_bucket_policy(Bucket=versioned, Policy=json.dumps({"Statement": statement}))
    for account in (server.alt, None):
        status, _, body = ask(server, versioned, "key", account)
        assert (status, json.loads(body)["bytes"]) == (200, 1)
        assert code(ask(server, versioned, "key", account, f"fixity&versionId={version}")) == (403, "AccessDenied")


def test_ranges_and_conditions_do_not_cut_the_answer(s3, server, bucket):
    s3.put_object(Bucket=bucket, Key="key", Body=b"content")
    path = f"/{bucket}/key?fixity"
    request = AWSRequest("GET", server.endpoint + path, headers={"Range": "bytes=0-1"})
    S3SigV4Auth(Credentials(server.main.access_key, server.main.secret_key), "s3", server.region).add_auth(request)
    connection = http.client.HTTPConnection(urlsplit(server.endpoint).netloc, timeout=ANSWER_S)
    connection.request("GET", path, headers=dict(request.headers))
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["bytes"]) == (200, 7)


def test_a_presigned_link_works(s3, server, bucket):
    s3.put_object(Bucket=bucket, Key="key", Body=b"content")
    credentials = Credentials(server.main.access_key, server.main.secret_key)

    def open_link(query: str, added: str = "") -> tuple[int, bytes]:
        request = AWSRequest("GET", f"{server.endpoint}/{bucket}/key{query}")
        S3SigV4QueryAuth(credentials, "s3", server.region, expires=60).add_auth(request)
        connection = http.client.HTTPConnection(urlsplit(server.endpoint).netloc, timeout=ANSWER_S)
        parts = urlsplit(request.url)
        connection.request("GET", f"{parts.path}?{parts.query}{added}")
        answer = connection.getresponse()
        return answer.status, answer.read()

    status, body = open_link("?fixity=")
    assert (status, json.loads(body)["bytes"]) == (200, 7)
    assert open_link("") == (200, b"content")
    assert open_link("", "&fixity=")[0] == 403, "the link was signed for the content"


def test_the_command_line_says_the_same_beside_a_server(own_with_object):
    own = own_with_object
    assert own.run("flush").returncode == 0
    ran = own.run("--json", "fixity", "plain/a key")
    assert ran.returncode == 0, ran.stderr
    told, found = json.loads(ran.stdout), fixity(own.server, "plain", "a key")
    assert told["name"] == "plain/a key"
    for name in ("bytes", "stored_bytes", "digests", "oldest_verified", "platters_to_spare", "copies", "sets"):
        assert told[name] == found[name]
    shown = own.run("fixity", "plain").stdout
    assert "a key" in shown and "verified" in shown and found["copies"][0]["platter"] in shown
    assert own.run("fixity", "plain/none").returncode == 1
