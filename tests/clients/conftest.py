"""The clients as programs, each with a home of its own, and the server that they talk to.

    FULGURITE_CLIENTS (default target/xtask-clients)  where `cargo xtask test --only clients` has put them; what isn't there is looked
                                                      for on the path, and a client that is nowhere is skipped
    FULGURITE_BIN                                     the server, see ../s3/serving.py

What a client says it has done is not believed: the tests look into the bucket with boto3, and into folders themselves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from serving import REPOSITORY, Serving, connect
from wire import Server

CLIENTS = Path(os.environ.get("FULGURITE_CLIENTS") or REPOSITORY / "target/xtask-clients")
# Longer than any client works here; who needs more hangs.
CLIENT_S = 120
# Platters on disk are written and read within seconds.
RESTORE_S = 120

# What people and programs name files: each has something that must be quoted in a path, a header, XML or a signature.
ODD_NAMES = [
    "plain.txt",
    "with space.txt",
    "two  spaces and end ",
    "a+b.txt",
    "100%.txt",
    "50%25 of it.txt",
    "grüße/日本語 ☃.txt",
    "e\u0301 in two code points.txt",
    "quote'\"&<>.txt",
    "semi;colon=and?more#.txt",
    "~tilde!*().txt",
    "deep/er/and deeper/file",
    "no content",
]

os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass(frozen=True)
class Program:
    """A client with its settings. `before` are the arguments that every call begins with."""

    path: Path
    environment: dict[str, str]
    before: tuple[str, ...] = ()

    def run(self, *arguments: object, given: bytes = b"") -> tuple[int, bytes, str]:
        command = [str(self.path), *self.before, *map(str, arguments)]
        ran = subprocess.run(command, input=given, capture_output=True, env=self.environment, timeout=CLIENT_S)
        return ran.returncode, ran.stdout, ran.stderr.decode(errors="replace")

    def __call__(self, *arguments: object, given: bytes = b"") -> Said:
        """Runs the client, which has to succeed."""
        code, out, err = self.run(*arguments, given=given)
        text = out.decode(errors="replace")
        assert code == 0, f"{self.path.name} {' '.join(map(str, arguments))}: exit status {code}\n{text}\n{err}"
        return Said(code, text, err)

    def bytes(self, *arguments: object) -> bytes:
        """Runs the client, which has to succeed and to write only what it fetched."""
        code, out, err = self.run(*arguments)
        assert code == 0, f"{self.path.name} {' '.join(map(str, arguments))}: exit status {code}\n{err}"
        return out

    def fails(self, *arguments: object) -> str:
        """Runs the client, which has to fail, and gives what it said."""
        code, out, err = self.run(*arguments)
        text = out.decode(errors="replace") + err
        assert code != 0, f"{self.path.name} {' '.join(map(str, arguments))} didn't fail\n{text}"
        return text


def find(place: str) -> Path:
    """The client where the step has put it, or the one on the path."""
    name = Path(place).name
    found = CLIENTS / place if (CLIENTS / place).is_file() else shutil.which(name)
    if not found:
        pytest.skip(f"there is no {CLIENTS / place} and no {name} on the path")
    return Path(found)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    serving = Serving(tmp_path_factory.mktemp("clients"))
    try:
        serving.start()
        yield serving.server
        serving.stop()
    finally:
        serving.kill()
        shutil.rmtree(serving.archive, ignore_errors=True)


@pytest.fixture
def environment(server: Server, tmp_path: Path) -> dict[str, str]:
    """For every client: nothing of whoever runs the tests, but how to reach the server."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_REGION": server.region,
        "AWS_DEFAULT_REGION": server.region,
        "AWS_ACCESS_KEY_ID": server.main.access_key,
        "AWS_SECRET_ACCESS_KEY": server.main.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture
def host(server: Server) -> str:
    return urlsplit(server.endpoint).netloc


@pytest.fixture(scope="session")
def s3(server: Server):
    return connect(server, server.main)


@pytest.fixture
def bucket_name() -> str:
    return f"clients-{uuid.uuid4().hex[:24]}"


@pytest.fixture
def bucket(s3, bucket_name: str) -> str:
    s3.create_bucket(Bucket=bucket_name)
    return bucket_name


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of files with odd names and contents that differ."""
    folder = tmp_path / "tree"
    for number, name in enumerate(ODD_NAMES):
        write(folder / name, b"" if name == "no content" else f"{number}: {name}\n".encode() * (number + 1))
    return folder


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def stored(s3) -> Callable[[str], dict[str, bytes]]:
    """All that is in a bucket, as boto3 sees it."""

    def read(bucket: str) -> dict[str, bytes]:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    return read


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + RESTORE_S
    while not is_so():
        assert time.monotonic() < end, f"not within {RESTORE_S} s: {what}"
        time.sleep(0.1)


@pytest.fixture
def buckets(s3) -> Callable[[], set[str]]:
    return lambda: {entry["Name"] for entry in s3.list_buckets()["Buckets"]}
