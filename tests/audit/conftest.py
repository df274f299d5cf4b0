"""Real servers of other people, and the example program `place` that talks to them.

    FULGURITE_PLACE       the program (default target/debug/examples/place): cargo build -p fulgurite-audit
                          --features remote --example place
    FULGURITE_RCLONE      an rclone whose `serve s3` is the S3 server, or else
    FULGURITE_VERSITYGW   versitygw
    FULGURITE_FAKE_GCS    fake-gcs-server
    FULGURITE_AZURITE     the script of Azurite's blob service
    FULGURITE_BIN         fulgurite (default target/debug/fulgurite), whose `serve` is another one

A server that isn't installed is skipped; with CI=true that is a failure. All listen on 127.0.0.1 only.
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.utils import formatdate
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("FULGURITE_PLACE") or REPOSITORY / "target/debug/examples/place")
# Longer than any server takes to start, and any operation to end.
PATIENCE_S = 60


@dataclass
class Place:
    """A place at a real server, and its folder on this machine."""

    url: str
    options: list[str]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    # Of another program, for what this one doesn't do.
    client: Any = None

    def run(self, command: str, *words: str, content: bytes = b"", options: list[str] | None = None) -> subprocess.CompletedProcess[bytes]:
        arguments = [PROGRAM, command, self.url, *words, *self.options, *(options or [])]
        environment = os.environ | self.environment
        return subprocess.run(arguments, input=content, capture_output=True, timeout=PATIENCE_S, env=environment, check=False)

    def do(self, command: str, *words: str, content: bytes = b"") -> bytes:
        said = self.run(command, *words, content=content)
        assert said.returncode == 0, said.stderr.decode()
        return said.stdout

    def cause(self, command: str, *words: str, content: bytes = b"", options: list[str] | None = None) -> str:
        said = self.run(command, *words, content=content, options=options)
        assert said.returncode == 1, said
        return said.stderr.decode().split(":")[0]

    def listed(self) -> dict[str, int]:
        lines = self.do("list").decode().splitlines()
        return {location: int(length) for length, location in (line.split("\t", 1) for line in lines)}


def absent(what: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is not installed")
    pytest.skip(f"{what} is not installed")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"the server did not start: {log.read_text(errors='replace')}")


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a server, waits until it listens, and ends it after the tests."""
    if not PROGRAM.exists():
        absent(str(PROGRAM))
    running: list[subprocess.Popen[bytes]] = []

    def go(name: str, port: int, *command: object, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        log = tmp_path_factory.mktemp(name) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [str(word) for word in command], stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, env=os.environ | (environment or {})
            )
        running.append(process)
        wait_for(port, process, log)
        return process

    yield go
    for process in running:
        process.terminate()
    for process in running:
        process.wait(timeout=PATIENCE_S)


@pytest.fixture(scope="session")
def sftp(start: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> Place:
    daemon = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    server = Path("/usr/lib/openssh/sftp-server")
    if daemon is None or not server.exists():
        absent("openssh-server")
    home = tmp_path_factory.mktemp("sftp")
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / key], check=True)
    shutil.copy(home / "user.pub", home / "authorized_keys")
    port, folder = free_port(), home / "copies"
    folder.mkdir()
    (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {(home / 'host.pub').read_text()}")
    settings = [
        f"ListenAddress 127.0.0.1:{port}",
        f"HostKey {home / 'host'}",
        f"AuthorizedKeysFile {home / 'authorized_keys'}",
        f"PidFile {home / 'pid'}",
        "PasswordAuthentication no",
        "StrictModes no",
        "UsePAM no",
        f"Subsystem sftp {server}",
    ]
    (home / "sshd_config").write_text("\n".join(settings) + "\n")
    if os.geteuid() == 0:
        # It insists on this folder when it runs as root.
        Path("/run/sshd").mkdir(exist_ok=True)
    start("sshd", port, daemon, "-D", "-e", "-f", home / "sshd_config")
    options = [f"key={home / 'user'}", f"known_hosts={home / 'known_hosts'}"]
    return Place(f"sftp://{getpass.getuser()}@127.0.0.1:{port}{folder}", options, folder)


@pytest.fixture(scope="session")
def webdav(start: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> Place:
    program = Path(sys.executable).with_name("wsgidav")
    if not program.exists():
        absent("WsgiDAV")
    home = tmp_path_factory.mktemp("webdav")
    port, folder = free_port(), home / "copies"
    (folder / "in a folder").mkdir(parents=True)
    (home / "wsgidav.yaml").write_text(
        f"host: 127.0.0.1\nport: {port}\nprovider_mapping:\n  '/dav': '{folder}'\n"
        "simple_dc:\n  user_mapping:\n    '*':\n      'user':\n        password: 'secret word'\n"
        "http_authenticator:\n  accept_basic: true\n  accept_digest: false\n  default_to_digest: false\n"
    )
    start("wsgidav", port, program, "--config", home / "wsgidav.yaml")
    options = ["username=user", "password=env:WEBDAV_PASSWORD"]
    url = f"webdav://127.0.0.1:{port}/dav/in%20a%20folder"
    return Place(url, options, folder / "in a folder", {"WEBDAV_PASSWORD": "secret word"})


@pytest.fixture(scope="session")
def s3(start: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> Place:
    home = tmp_path_factory.mktemp("s3")
    port = free_port()
    (home / "root/bucket").mkdir(parents=True)
    if program := os.environ.get("FULGURITE_VERSITYGW"):
        keys = {"ROOT_ACCESS_KEY": "access", "ROOT_SECRET_KEY": "secret word"}
        start("versitygw", port, program, "--port", f"127.0.0.1:{port}", "posix", "--sidecar", home, home / "root", environment=keys)
    elif program := os.environ.get("FULGURITE_RCLONE"):
        keys = {"RCLONE_CONFIG": str(home / "rclone.conf"), "RCLONE_AUTH_KEY": '"access,secret word"'}
        options = ["--addr", f"127.0.0.1:{port}"]
        start("rclone", port, program, "serve", "s3", home / "root", *options, environment=keys)
    else:
        absent("an S3 server")
    options = [f"endpoint=http://127.0.0.1:{port}", "access_key_id=access", "secret_access_key=env:S3_SECRET"]
    return Place("s3://bucket/prefix", options, home / "root/bucket/prefix", {"S3_SECRET": "secret word"})


@pytest.fixture(scope="session")
def azure(start: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A container of Azurite, which keeps blobs in files of its own."""
    program, node = Path(os.environ.get("FULGURITE_AZURITE", "")), shutil.which("node")
    if not program.is_file() or node is None:
        absent("Azurite")
    home, port = tmp_path_factory.mktemp("azure"), free_port()
    # The account and key of every such emulator.
    account, key = "devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    options = ["--blobHost", "127.0.0.1", "--blobPort", port, "--location", home, "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    start("azurite", port, node, program, *options)
    endpoint = f"http://127.0.0.1:{port}/{account}"
    create_container(endpoint, account, key)
    return Place("azblob://bucket/prefix", [f"endpoint={endpoint}", f"account_name={account}", "account_key=env:AZURE_KEY"], home, {"AZURE_KEY": key})


def create_container(endpoint: str, account: str, key: str) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    canonical = "".join(f"{name}:{value}\n" for name, value in headers.items()) + f"/{account}/{account}/bucket\nrestype:container"
    # After the verb, eleven headers that this request doesn't have.
    signed = hmac.new(base64.b64decode(key), f"PUT{chr(10) * 12}{canonical}".encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(signed).decode()}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bucket?restype=container", method="PUT", headers=headers), timeout=PATIENCE_S).close()


@pytest.fixture(scope="session")
def gcs(start: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A bucket of fake-gcs-server, which keeps objects in files."""
    program = os.environ.get("FULGURITE_FAKE_GCS")
    if program is None:
        absent("fake-gcs-server")
    home, port = tmp_path_factory.mktemp("gcs"), free_port()
    start("fake-gcs-server", port, program, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-filesystem-root", home)
    endpoint = f"http://127.0.0.1:{port}"
    bucket = urllib.request.Request(f"{endpoint}/storage/v1/b", b'{"name":"bucket"}', {"Content-Type": "application/json"})
    urllib.request.urlopen(bucket, timeout=PATIENCE_S).close()
    return Place("gcs://bucket/prefix", [f"endpoint={endpoint}", "anonymous=true"], home)


@pytest.fixture(scope="session")
def b2(start: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> Place:
    return serve_b2(start, tmp_path_factory.mktemp("b2"))


def serve_b2(start: Callable[..., object], home: Path, token_life_s: int = 3600) -> Place:
    """A bucket of the stand-in for B2."""
    home.mkdir(exist_ok=True)
    port = free_port()
    start("b2", port, sys.executable, Path(__file__).with_name("b2_server.py"), home, port, token_life_s)
    options = [f"endpoint=http://127.0.0.1:{port}", "bucket_id=b0b0", "application_key_id=key", "application_key=env:B2_KEY"]
    return Place("b2://bucket/prefix", options, home, {"B2_KEY": "testing"})


# So short that tests outlast tokens.
TOKEN_LIFE_S = 3


@pytest.fixture(scope="session")
def swift(start: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A container of OpenStack Swift, which keeps objects in files whose names are hashes."""
    if find_spec("swift") is None:
        absent("OpenStack Swift")
    home, port = tmp_path_factory.mktemp("swift"), free_port()
    start("swift", port, sys.executable, Path(__file__).with_name("swift_server.py"), home, port, TOKEN_LIFE_S)
    client = Swift(f"http://127.0.0.1:{port}/auth/v1.0")
    client.send("PUT", "bucket")
    # Otherwise, signed URLs are refused.
    client.send("POST", "bucket", headers={"X-Container-Meta-Temp-URL-Key": "signing key"})
    options = [f"auth_url={client.auth_url}", "user=test:tester", "key=env:SWIFT_KEY", "temp_url_key=env:SWIFT_TEMP_KEY"]
    return Place("swift://bucket/prefix", options, home, {"SWIFT_KEY": "testing", "SWIFT_TEMP_KEY": "signing key"}, client)


class Swift:
    """Does with a Swift what the program doesn't do."""

    def __init__(self, auth_url: str) -> None:
        self.auth_url = auth_url

    def token(self) -> tuple[str, str]:
        """A new token, and the URL of the account."""
        headers = {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}
        with urllib.request.urlopen(urllib.request.Request(self.auth_url, headers=headers), timeout=PATIENCE_S) as answer:
            return answer.headers["X-Auth-Token"], answer.headers["X-Storage-Url"]

    def send(self, method: str, path: str, content: bytes | None = None, headers: dict[str, str] | None = None) -> Message:
        token, account = self.token()
        request = urllib.request.Request(f"{account}/{path}", content, {"X-Auth-Token": token} | (headers or {}), method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.headers


@pytest.fixture(scope="session", params=["sftp", "webdav", "s3"])
def place(request: pytest.FixtureRequest) -> Place:
    return request.getfixturevalue(request.param)


@pytest.fixture
def reference(tmp_path: Path) -> Place:
    """A folder with good copies."""
    folder = tmp_path / "reference"
    folder.mkdir()
    return Place(str(folder), [], folder)
