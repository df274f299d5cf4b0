"""The program under test as a process: started on a folder, stopped, killed, and started again where it was. And boto3 for it.

    FULGURITE_BIN (default target/debug/fulgurite)  what is started, as `fulgurite -A DIR --json serve --listen 127.0.0.1:0`

The first start on a folder prints the first account's key, and no later one does.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config

from wire import Account, Server

START_S = 60
STOP_S = 60
REPOSITORY = Path(__file__).resolve().parents[2]


class Serving:
    """A server on an archive of its own in `folder`, with its log beside it."""

    def __init__(self, folder: Path):
        self.program = Path(os.environ.get("FULGURITE_BIN") or REPOSITORY / "target/debug/fulgurite")
        if not self.program.is_file():
            pytest.exit(f"{self.program} is not there: cargo build -p fulgurite, or set FULGURITE_BIN", returncode=2)
        self.archive, self.log = folder / "archive", folder / "log"
        self.process: subprocess.Popen | None = None
        self.account: Account | None = None
        self.endpoint = self.region = ""

    def command(self, *arguments: str) -> list[str]:
        return [str(self.program), "-A", str(self.archive), "--json", *arguments]

    def start(self, *options: str) -> None:
        """After it the endpoint is known, and is another one than before. What it says of itself is in `said`."""
        with open(self.log, "ab") as log:
            command = self.command("serve", "--listen", "127.0.0.1:0", *options)
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        said = self.said = self._announced(first_line(self.process))
        self.endpoint, self.region = said["endpoint"], said["region"]
        if "access_key" in said:
            self.account = Account(said["access_key"], said["secret_key"])

    def _announced(self, line: bytes) -> dict[str, str]:
        try:
            return json.loads(line)
        except ValueError:
            fail(f"the first line of the server is no JSON, or didn't come within {START_S} s: {line!r}\n{self.log.read_text()}")

    @property
    def server(self) -> Server:
        return Server(self.endpoint, self.region, self.account, None)

    def add_account(self, name: str) -> Account:
        added = subprocess.run(self.command("accounts", "add", name), stdout=subprocess.PIPE, check=True, timeout=START_S)
        said = json.loads(added.stdout)
        return Account(said["access_key"], said["secret_key"])

    def stop(self) -> None:
        """Ends it as an operator does, and wants to see it end well."""
        assert self.process.poll() is None, f"the server ended by itself:\n{self.log.read_text()}"
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STOP_S) == 0, f"SIGTERM did not end the server well:\n{self.log.read_text()}"

    def kill(self) -> None:
        """Ends it as a power cut does, if it runs."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Own(Serving):
    """A server of one's own, as long as it is entered."""

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        # What went wrong inside is what is to be told.
        self.kill() if kind else self.process.poll() == 0 or self.stop()

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
        command = [str(self.program), "-A", str(self.archive), *arguments]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=START_S)

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(urllib.request.Request(self.endpoint + path, headers=headers), timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def first_line(process: subprocess.Popen) -> bytes:
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        lines.put(process.stdout.readline())
        # A full pipe would stop the server.
        for _ in process.stdout:
            pass

    threading.Thread(target=read, daemon=True).start()
    try:
        return lines.get(timeout=START_S)
    except queue.Empty:
        return b""


def wait_until(what: str, holds) -> None:
    until = time.monotonic() + START_S
    while not holds():
        assert time.monotonic() < until, f"waited {START_S} s for this: {what}"
        time.sleep(0.05)


def fail(why: str):
    pytest.fail(why, pytrace=False)


def connect(server: Server, account: Account | None, signature: str = "s3v4", **settings):
    """A client that asks once, and so shows the first answer. `settings` are more of botocore's."""
    config = Config(
        signature_version=signature if account else UNSIGNED,
        s3={"addressing_style": "path"},
        retries={"total_max_attempts": 1},
        connect_timeout=10,
        max_pool_connections=32,
        proxies={},
        **{"read_timeout": 60} | settings,
    )
    keys = {"aws_access_key_id": account.access_key, "aws_secret_access_key": account.secret_key} if account else {}
    return boto3.session.Session().client("s3", endpoint_url=server.endpoint, region_name=server.region, config=config, **keys)
