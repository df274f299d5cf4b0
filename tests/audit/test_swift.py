"""OpenStack Swift itself: signing in, tokens that end, what it states, and how it treats damaged objects."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conftest import PATIENCE_S, TOKEN_LIFE_S, Place
from test_audits import FEW, FILES, Audit, flip
from test_places import ODD_NAMES

# One a second: at this rate, checking them takes longer than two tokens last.
SLOW = {name: FILES[name] for name in list(FILES)[: 2 * TOKEN_LIFE_S + 2]}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_kept(swift: Place, name: str) -> None:
    content = name.encode() * 3
    swift.do("write", name, content=content)
    assert swift.do("read", name) == content
    assert swift.do("length", name) == f"{len(content)}\n".encode()
    assert swift.listed()[name] == len(content)
    swift.do("remove", name)
    assert name not in swift.listed()
    assert swift.cause("read", name) == "missing"
    assert swift.cause("length", name) == "missing"


@pytest.mark.parametrize("length", [0, 1, 8 << 20, (8 << 20) + 1, 20_000_003])
def test_every_length_survives(swift: Place, length: int) -> None:
    content = random.Random(length).randbytes(length)
    swift.do("write", "length", content=content)
    assert swift.do("read", "length") == content
    assert swift.do("length", "length") == f"{length}\n".encode()
    assert swift.listed()["length"] == length
    # Without the parts of large objects.
    assert replace(swift, url="swift://bucket").listed()["prefix/length"] == length
    assert not [name for name in replace(swift, url="swift://bucket").listed() if name.startswith(".")]
    swift.do("remove", "length")


def test_nothing_is_missing_without_its_container(swift: Place) -> None:
    gone = replace(swift, url="swift://no-such-container/prefix")
    for command in ("length", "read", "list"):
        assert gone.cause(command, *([] if command == "list" else ["there"])) == "fault", command


def test_wrong_credentials_are_denied(swift: Place) -> None:
    wrong = replace(swift, environment=swift.environment | {"SWIFT_KEY": "guessed word"})
    for command in ("length", "read", "list"):
        said = wrong.run(command, *([] if command == "list" else ["there"]))
        assert said.stderr.startswith(b"denied: ") and b"signing in at http://127.0.0.1" in said.stderr, said
        assert b"guessed word" not in said.stderr


def test_a_signed_url_can_be_fetched_by_anyone(swift: Place) -> None:
    swift.do("write", "signed one", content=b"content")
    url = swift.do("url", "signed one").decode().strip()
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        assert answer.read() == b"content"


def test_the_etag_is_stated_except_that_of_large_objects(swift: Place) -> None:
    content = b"the content of an object"
    swift.do("write", "stated", content=content)
    assert swift.do("stated", "stated").decode().split() == [str(len(content)), f"md5:{hashlib.md5(content).hexdigest()}"]
    # Static: a manifest that lists its segments. Dynamic: all objects below a prefix.
    digest = hashlib.md5(content).hexdigest()
    manifest = json.dumps([{"path": f"/bucket/prefix/segments/{part}", "etag": digest, "size_bytes": len(content)} for part in "12"])
    for part in "12":
        swift.client.send("PUT", f"bucket/prefix/segments/{part}", content)
    swift.client.send("PUT", "bucket/prefix/static?multipart-manifest=put", manifest.encode())
    swift.client.send("PUT", "bucket/prefix/dynamic", b"", {"X-Object-Manifest": "bucket/prefix/segments/"})
    for name in ("static", "dynamic"):
        assert swift.do("stated", name) == f"{2 * len(content)}\n".encode()
        assert swift.do("read", name) == 2 * content


def test_a_token_of_its_own_ends_as_denied_and_its_copies_as_unavailable(swift: Place, reference: Place, tmp_path: Path) -> None:
    token, account = swift.client.token()
    fixed = replace(swift, options=[f"endpoint={account}", "token=env:SWIFT_TOKEN"], environment={"SWIFT_TOKEN": token})
    # Made while the node signs in by itself: this token may end at any time.
    audit = Audit(tmp_path, {"far": swift, "near": reference}, FEW)
    swift.do("write", "before", content=b"x")
    cleared = [f"{option.split('=', 1)[0]}=" for option in swift.options]
    options = [word for option in [*cleared, *fixed.options] for word in ("--option", option)]
    audit.environment |= fixed.environment
    audit.good("node", "set", "far", "--place", fixed.url, "--unreached", *options)
    deadline = time.monotonic() + PATIENCE_S
    while fixed.run("read", "before").returncode == 0:
        assert time.monotonic() < deadline, "the token does not end"
        time.sleep(0.2)
    said = fixed.run("read", "before")
    assert said.stderr.startswith(b"denied: ") and token.encode() not in said.stderr, said
    run = audit.run("run")
    assert run.returncode == 4 and token not in run.stdout + run.stderr, run
    assert audit.states() == {"far": {"unavailable": len(FEW)}, "near": {"verified": len(FEW)}}


def test_a_run_that_outlasts_its_tokens_verifies_everything(swift: Place, reference: Place, tmp_path: Path) -> None:
    audit = Audit(tmp_path, {"far": swift, "near": reference}, SLOW)
    audit.good("node", "set", "far", "--workers", "1", "--files-per-second", "1")
    begun = time.monotonic()
    audit.good("run")
    assert time.monotonic() - begun > 2 * TOKEN_LIFE_S
    assert audit.states()["far"] == {"verified": len(SLOW)}
    assert {event["kind"] for event in audit.events()} == {"verified"}


def test_other_digests_and_lengths_are_found_and_repaired(swift: Place, reference: Place, tmp_path: Path) -> None:
    audit = Audit(tmp_path, {"far": swift, "near": reference}, FILES)
    audit.good("run")
    # An upload that replaced the object by something else.
    changed, shorter, gone = "folder 1/file 7", "folder 2/file 8", "folder 0/file 9"
    swift.do("write", changed, content=FILES[changed][::-1])
    swift.do("write", shorter, content=FILES[shorter][:-1])
    swift.do("remove", gone)
    said = audit.run("run", "--all")
    assert said.returncode == 1, said
    for name, state in [(changed, "digest-mismatch"), (shorter, "size-mismatch"), (gone, "missing")]:
        assert f"far: {name}: {state}" in said.stdout, said.stdout
    assert audit.states()["far"] == {"verified": len(FILES) - 3, "digest-mismatch": 1, "size-mismatch": 1, "missing": 1}
    audit.good("repair", "--apply")
    for name in (changed, shorter, gone):
        assert swift.do("read", name) == FILES[name]
    audit.good("run", "--all")


def test_a_flipped_bit_that_swift_itself_notices_is_found_and_repaired(swift: Place, reference: Place, tmp_path: Path) -> None:
    """Swift compares the bytes that it sends with the ETag, and sets the only replica aside after the first reading."""
    audit = Audit(tmp_path, {"far": swift, "near": reference}, FILES)
    audit.good("run")
    name = "folder 1/file 7"
    flip(swift.folder, FILES[name])
    first = audit.run("run", "--all")
    assert first.returncode == 4, first
    assert audit.states()["far"] == {"verified": len(FILES) - 1, "unavailable": 1}
    [event] = [event for event in audit.events() if event["kind"] == "unavailable"]
    assert event["name"] == name and "other bytes" in str(event["detail"]) and "no such file" in str(event["detail"]), event
    second = audit.run("run", "--all")
    assert second.returncode == 1 and f"far: {name}: missing" in second.stdout, second
    audit.good("repair", "--apply")
    assert swift.do("read", name) == FILES[name]
    audit.good("run", "--all")


def test_a_damaged_segment_of_a_large_object_is_never_verified(swift: Place, reference: Place, tmp_path: Path) -> None:
    """Swift ends its answers before the segment that it has set aside, as a bad network would."""
    large = random.Random(5).randbytes(20_000_000)
    audit = Audit(tmp_path, {"far": swift, "near": reference}, {"large": large, "small": b"small"})
    audit.good("run")
    flip(swift.folder, large[9_000_000:9_001_000])
    for _ in range(2):
        assert audit.run("run", "--all").returncode == 4
        assert audit.states()["far"] == {"verified": 1, "unavailable": 1}


def test_the_provider_s_digest_leads_to_a_reading_only_if_it_differs(swift: Place, reference: Place, tmp_path: Path) -> None:
    audit = Audit(tmp_path, {"far": swift, "near": reference}, FILES)
    rows = [f"{name},{hashlib.md5(content).hexdigest()}" for name, content in FILES.items()]
    (tmp_path / "md5.csv").write_text("\n".join(["path,md5", *rows]) + "\n")
    audit.good("inventory", "csv", "md5.csv")
    audit.good("node", "set", "far", "--method", "provider")
    audit.good("run")
    assert audit.states()["far"] == {"provider-attested": len(FILES)}
    name = "folder 1/file 7"
    swift.do("write", name, content=FILES[name][::-1])
    said = audit.run("run", "--all")
    assert said.returncode == 1 and f"far: {name}: digest-mismatch" in said.stdout, said
    assert audit.states()["far"] == {"provider-attested": len(FILES) - 1, "digest-mismatch": 1}


@pytest.fixture
def keystone(swift: Place) -> Iterator[str]:
    """The part of Keystone's version 3 that a client uses, before that Swift: it passes on the tokens of TempAuth."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            auth = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["auth"]
            identity = auth["identity"]
            user = {"name": "auditor", "domain": {"name": "Users"}, "password": "testing"}
            as_user = identity == {"methods": ["password"], "password": {"user": user}}
            as_user = as_user and auth["scope"] == {"project": {"name": "archive", "domain": {"name": "Projects"}}}
            application = {"id": "app", "secret": "testing"}
            as_application = identity == {"methods": ["application_credential"], "application_credential": application} and "scope" not in auth
            if self.path != "/identity/v3/auth/tokens" or not (as_user or as_application):
                self.answer(401, {"error": {"code": 401, "title": "Unauthorized", "message": f"not with {identity}"}})
                return
            token, account = swift.client.token()
            endpoints = [
                {"interface": "internal", "region_id": "here", "url": "http://127.0.0.1:1/v1"},
                {"interface": "public", "region_id": "here", "url": account},
                {"interface": "public", "region_id": "elsewhere", "url": "http://127.0.0.1:1/v1"},
            ]
            times = {"issued_at": "2026-11-25T08:00:00.000000Z", "expires_at": "2026-11-25T09:00:00.000000Z"}
            self.answer(201, {"token": times | {"catalog": [{"type": "object-store", "endpoints": endpoints}]}}, token)

        def answer(self, status: int, body: object, token: str = "") -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("X-Subject-Token", token)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/identity/v3"
    server.shutdown()
    thread.join()
    server.server_close()


USER = {"OS_USERNAME": "auditor", "OS_PASSWORD": "testing", "OS_USER_DOMAIN_NAME": "Users", "OS_PROJECT_NAME": "archive", "OS_PROJECT_DOMAIN_NAME": "Projects"}
APPLICATION = {"OS_APPLICATION_CREDENTIAL_ID": "app", "OS_APPLICATION_CREDENTIAL_SECRET": "testing"}


@pytest.mark.parametrize("variables", [USER, APPLICATION], ids=["user", "application credential"])
def test_the_variables_of_openstack_sign_in_at_keystone(swift: Place, keystone: str, variables: dict[str, str]) -> None:
    variables = variables | {"OS_AUTH_URL": keystone, "OS_REGION_NAME": "here"}
    place = replace(swift, options=["credentials=environment"], environment=variables)
    place.do("write", "by keystone", content=b"content")
    assert place.do("read", "by keystone") == b"content"
    wrong = replace(place, environment={name: value.replace("testing", "guessed word") for name, value in variables.items()})
    said = wrong.run("read", "by keystone")
    assert said.stderr.startswith(b"denied: ") and b"guessed word" not in said.stderr, said
    # Without credentials=environment, the environment doesn't matter.
    assert b"need endpoint" in replace(place, options=["token=env:OS_AUTH_URL"]).run("read", "by keystone").stderr


def test_the_options_sign_in_at_keystone(swift: Place, keystone: str, reference: Place, tmp_path: Path) -> None:
    options = ["username=auditor", "password=env:SWIFT_KEY", "user_domain_name=Users", "project_name=archive", "project_domain_name=Projects"]
    far = replace(swift, options=[f"auth_url={keystone}", "region=here", *options])
    audit = Audit(tmp_path, {"far": far, "near": reference}, SLOW)
    # Tokens end earlier than Keystone said, as if they were revoked.
    audit.good("node", "set", "far", "--workers", "1", "--files-per-second", "1")
    audit.good("run")
    assert audit.states()["far"] == {"verified": len(SLOW)}
    elsewhere = replace(far, options=[option.replace("=here", "=") for option in far.options])
    assert b"here, elsewhere" in elsewhere.run("read", "x").stderr


def test_the_variables_of_swift_sign_in_by_version_1(swift: Place) -> None:
    variables = {"ST_AUTH": swift.client.auth_url, "ST_USER": "test:tester", "ST_KEY": "testing"}
    place = replace(swift, options=["credentials=environment"], environment=variables)
    place.do("write", "by version 1", content=b"content")
    assert place.do("read", "by version 1") == b"content"
