"""A server with an archive, and a browser that fails a test on any error in its console.

    FULGURITE_BIN (default target/debug/fulgurite)  the server, see ../s3/serving.py
    FULGURITE_CHROMIUM (default: chromium on the path)
    FULGURITE_TSC         the script of the TypeScript compiler

A program that isn't installed is skipped; with CI=true that is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from serving import Own, connect

os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull

# Longer than any page takes to load or to be loaded again.
PATIENCE_MS = 60_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = os.environ.get("FULGURITE_CHROMIUM") or shutil.which("chromium")
    if not chromium:
        pytest.skip("no Chromium")
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that root in a container hasn't.
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Own]:
    with Own(tmp_path) as server:
        yield server


class Filled:
    """An archive with a bucket, a set of three platters and something staged."""

    def __init__(self, server: Own):
        self.server = server
        self.s3 = connect(server.server, server.account)
        self.s3.create_bucket(Bucket="survey")
        for night in range(3):
            for number in range(4):
                self.s3.put_object(Bucket="survey", Key=f"night/{night}/{number:04}", Body=os.urandom(20_000))
        flushed = server.run("flush")
        assert flushed.returncode == 0, flushed.stderr
        self.s3.put_object(Bucket="survey", Key="fresh.txt", Body=b"staged")


@pytest.fixture
def filled(archive: Own) -> Filled:
    return Filled(archive)


@pytest.fixture
def new_page(browser: Browser, archive: Own) -> Iterator[Callable[..., Page]]:
    """Makes pages in contexts of their own. None may log an error, or ask another server for anything."""
    faults: list[str] = []
    contexts = []

    def make(expected: tuple[str, ...] = (), **context) -> Page:
        """`expected` are parts of messages that the test causes on purpose."""
        contexts.append(browser.new_context(**context))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)

        def log(message) -> None:
            if message.type in ("error", "warning") and not any(part in message.text for part in expected):
                faults.append(f"console: {message.text}")

        def request(sent) -> None:
            if urlsplit(sent.url).netloc != urlsplit(archive.endpoint).netloc:
                faults.append(f"request to {sent.url}")

        page.on("console", log)
        page.on("request", request)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        return page

    yield make
    for context in contexts:
        context.close()
    assert not faults, "\n".join(faults)
