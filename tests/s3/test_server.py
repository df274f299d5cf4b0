"""The server itself: health, figures, TLS, a graceful stop, keys that are revoked, and the command line beside it."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
from botocore.exceptions import ClientError
from urllib3 import encode_multipart_formdata

from serving import START_S, connect
from wire import Account, Wire


def test_probes_may_send_head(wire):
    for path in ("/-/health", "/-/ready", "/-/metrics"):
        reply = wire.send("HEAD", path, anonymous=True)
        assert (reply.status, reply.body) == (200, b""), path
        refused = wire.send("POST", path, anonymous=True)
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD"), path
    missing = wire.send("GET", "/-/healthz", anonymous=True)
    assert missing.status == 404 and b"/-/health, /-/ready, /-/metrics" in missing.body


def test_it_says_that_it_runs_and_what_it_did(own):
    with own:
        assert own.get("/-/health") == (200, "ok\n")
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="counted")
        for number in range(3):
            client.put_object(Bucket="counted", Key=str(number), Body=b"1234")
        status, figures = own.get("/-/metrics")
        assert status == 200
        assert 'fulgurite_requests_total{method="PUT",status="2xx"} 4' in figures.splitlines()
        assert "fulgurite_versions 3" in figures.splitlines()
        assert "fulgurite_content_bytes 12" in figures.splitlines()


def test_figures_are_for_who_has_the_token(own):
    with own:
        pass
    settings = own.archive / "service.toml"
    settings.write_text('metrics_token = "open sesame"\n' + settings.read_text())
    with own:
        assert own.get("/-/metrics")[0] == 403
        assert own.get("/-/metrics", Authorization="Bearer open sesam")[0] == 403
        assert own.get("/-/metrics", Authorization="Bearer open sesame")[0] == 200


def test_figures_without_a_token_are_for_this_machine_and_for_no_proxy_on_it(own):
    with own:
        assert own.get("/-/metrics")[0] == 200
        port = own.server.endpoint.rsplit(":", 1)[1]
        assert own.get("/-/metrics", Host=f"localhost:{port}")[0] == 200
        assert own.get("/-/metrics", Host="s3.example.org")[0] == 403
        assert own.get("/-/metrics", **{"X-Forwarded-For": "192.0.2.1"})[0] == 403
        assert own.get("/-/health", Host="s3.example.org")[0] == 200


def test_a_setting_that_is_none_is_named(own):
    with own:
        pass
    settings = own.archive / "service.toml"
    settings.write_text('listens = "127.0.0.1:1"\n' + settings.read_text())
    refused = own.run("serve")
    assert refused.returncode == 1
    assert "service.toml" in refused.stderr and "listens" in refused.stderr, refused.stderr


@pytest.fixture
def certified(own):
    """With a certificate of its own, beside its archive."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not there to make a certificate")
    with own:
        pass
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    made += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(made, cwd=own.archive, check=True, capture_output=True)
    settings = own.archive / "service.toml"
    settings.write_text(settings.read_text() + '\n[tls]\ncertificate = "certificate.pem"\nkey = "key.pem"\n')
    return own


def test_connections_are_tls_where_a_certificate_is_named(certified):
    with certified:
        assert certified.endpoint.startswith("https://")
        context = ssl.create_default_context(cafile=certified.archive / "certificate.pem")
        with urllib.request.urlopen(certified.endpoint + "/-/health", context=context, timeout=10) as answer:
            assert answer.read() == b"ok\n"
        plain = certified.endpoint.replace("https://", "http://")
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(plain + "/-/health", timeout=10)


def test_the_end_of_a_certificate_is_a_metric_and_a_wrong_key_is_named(certified):
    with certified:
        context = ssl.create_default_context(cafile=certified.archive / "certificate.pem")
        with urllib.request.urlopen(certified.endpoint + "/-/metrics", context=context, timeout=10) as answer:
            lines = dict(line.split() for line in answer.read().decode().splitlines() if line.startswith("fulgurite_tls"))
        # It was made for one day.
        left = float(lines["fulgurite_tls_certificate_expires_timestamp_seconds"]) - time.time()
        assert 0 < left <= 86_400
    key = certified.archive / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
    refused = certified.run("serve")
    assert refused.returncode == 1 and "key.pem can't be used for TLS: it is not the key" in refused.stderr, refused.stderr


def test_a_policy_that_denies_connections_in_the_clear_lets_tls_in(certified, monkeypatch):
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certified.archive / "certificate.pem"))
    resources = ["arn:aws:s3:::sealed", "arn:aws:s3:::sealed/*"]
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": resources}
    deny["Condition"] = {"Bool": {"aws:SecureTransport": "false"}}
    with certified:
        client = connect(certified.server, certified.account)
        client.create_bucket(Bucket="sealed")
        client.put_bucket_policy(Bucket="sealed", Policy=json.dumps({"Version": "2012-10-17", "Statement": [deny]}))
        client.put_object(Bucket="sealed", Key="object", Body=b"body")
        assert client.get_object(Bucket="sealed", Key="object")["Body"].read() == b"body"


def test_what_is_under_way_is_finished_before_a_stop(own):
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="kept")
        url = urllib.parse.urlsplit(client.generate_presigned_url("put_object", Params={"Bucket": "kept", "Key": "slow"}))
        with socket.create_connection((url.hostname, url.port), timeout=START_S) as connection:
            head = f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
            connection.sendall(head.encode())
            # From here on it is under way.
            assert connection.recv(1_000).startswith(b"HTTP/1.1 100")
            connection.sendall(b"a" * 500_000)
            own.process.send_signal(signal.SIGTERM)
            with pytest.raises(OSError):
                while True:
                    # Nobody is let in any more.
                    socket.create_connection((url.hostname, url.port), timeout=START_S).close()
            assert own.process.poll() is None, "it waits for the upload"
            connection.sendall(b"b" * 500_000)
            assert connection.recv(1_000).startswith(b"HTTP/1.1 200")
    with own:
        client = connect(own.server, own.account)
        assert client.head_object(Bucket="kept", Key="slow")["ContentLength"] == 1_000_000


def test_a_key_that_is_revoked_signs_nothing_any_more(own):
    with own:
        added = json.loads(own.run("--json", "accounts", "key", "main").stdout)
        second = connect(own.server, Account(added["access_key"], added["secret_key"]))
        second.list_buckets()
        assert own.run("accounts", "revoke", added["access_key"]).returncode == 0
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                second.list_buckets()
            except ClientError as refused:
                assert refused.response["Error"]["Code"] == "InvalidAccessKeyId"
                break
            time.sleep(0.1)
        else:
            pytest.fail("a revoked key still signs")
        connect(own.server, own.account).list_buckets()


def test_the_command_line_reads_beside_the_server_and_changes_nothing(own, tmp_path):
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="photos")
        client.put_object(Bucket="photos", Key="1969/moon.tif", Body=b"one small step")
        listed = own.run("ls", "photos")
        assert listed.returncode == 0 and "photos/1969/moon.tif" in listed.stdout, listed
        got = own.run("get", "photos/1969/moon.tif", "-")
        assert got.stdout == "one small step"
        file = tmp_path / "file"
        file.write_text("content")
        refused = own.run("put", str(file))
        assert refused.returncode == 1 and "in use" in refused.stderr, refused
    assert own.run("put", str(file), "--to", "photos").returncode == 0
    assert own.run("flush").returncode == 0
    assert own.run("verify", "--objects").returncode == 0
    with own:
        client = connect(own.server, own.account)
        assert client.get_object(Bucket="photos", Key="file")["Body"].read() == b"content"
        assert client.get_object(Bucket="photos", Key="1969/moon.tif")["Body"].read() == b"one small step"
        assert [entry["Key"] for entry in client.list_objects_v2(Bucket="photos")["Contents"]] == ["1969/moon.tif", "file"]


def test_an_unencrypted_archive_does_not_call_itself_encrypted(own, tmp_path):
    made = own.run("init", str(own.archive), "--clear-text", "--store", str(tmp_path / "store"))
    assert made.returncode == 0, made
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="open")
        with pytest.raises(ClientError, match="ServerSideEncryptionConfigurationNotFoundError"):
            client.get_bucket_encryption(Bucket="open")
        rules = [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
        with pytest.raises(ClientError, match="NotImplemented"):
            client.put_bucket_encryption(Bucket="open", ServerSideEncryptionConfiguration={"Rules": rules})


def test_a_bucket_may_stand_before_the_domain_of_the_settings(own):
    """In requests, forms, and what browsers ask before."""
    with own:
        connect(own.server, own.account).create_bucket(Bucket="photos")
    settings = own.archive / "service.toml"
    settings.write_text('domain = "s3.example.org"\n' + settings.read_text())
    with own:
        client, wire = connect(own.server, own.account), Wire(own.server)
        host = {"Host": "photos.s3.example.org"}
        assert wire.send("PUT", "/a/key", host, b"body").status == 200
        assert wire.send("GET", "/photos/a/key", {"Host": "s3.example.org"}).body == b"body"
        for name in ("photos.s3.example.org:80", "photos.s3.example.org:8333", "PHOTOS.S3.Example.ORG"):
            assert wire.send("GET", "/a/key", {"Host": name}).body == b"body", name
        assert wire.send("GET", "/photos/a/key", {"Host": "S3.example.org:8333"}).body == b"body"
        assert client.get_object(Bucket="photos", Key="a/key")["Body"].read() == b"body"
        for key in ("/-/health", "/-/ready", "/-/metrics"):
            assert wire.send("GET", key, host).code == "NoSuchKey"
            assert wire.send("PUT", key, host, b"an object").status == 200
            assert wire.send("GET", key, host).body == b"an object"
            assert client.get_object(Bucket="photos", Key=key[1:])["Body"].read() == b"an object"
        for name in ("s3.example.org", "health.internal", wire.host):
            assert wire.send("GET", "/-/health", {"Host": name}, anonymous=True).body == b"ok\n"
        form = client.generate_presigned_post("photos", "b/key")["fields"]
        content, kind = encode_multipart_formdata([*form.items(), ("file", ("name", b"from a form"))])
        assert wire.send("POST", "/", host | {"Content-Type": kind}, content, anonymous=True).status == 204
        assert wire.send("GET", "/b/key", host).body == b"from a form"
        rule = {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"]}
        client.put_bucket_cors(Bucket="photos", CORSConfiguration={"CORSRules": [rule]})
        asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "GET"}
        assert wire.send("OPTIONS", "/a/key", host | asked, anonymous=True).status == 200
        assert wire.send("OPTIONS", "/a/key", {"Host": "other.s3.example.org"} | asked, anonymous=True).status == 403
