"""Takes the pictures of docs/dashboard.md, from a server with an archive of its own, and of docs/twin.md.

    FULGURITE_BIN=target/release/fulgurite python tests/dashboard/pictures.py docs
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Behind this folder, which has a conftest of its own.
sys.path.append(str(Path(__file__).resolve().parent.parent / "s3"))

from playwright.sync_api import Browser, sync_playwright

from conftest import Filled
from test_dashboard import damage, with_library
from test_viewer import PROGRAM, REPOSITORY
from serving import Own, connect

# While shuttle 3 of scenarios/faults.toml is out of order.
INSTANT_S = 30_000
VIEWS = {"fixity": "fixity", "object": "objects/survey?key=night/1/0002"}
# How long the load for the picture of the activity goes on.
LOAD_S = 240


def main() -> None:
    docs = Path(sys.argv[1])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        take_dashboard(browser, docs / "dashboard")
        take_viewer(browser, docs / "twin")
        browser.close()


def take_viewer(browser: Browser, folder: Path) -> None:
    """A run while a shuttle is out of order."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        watched = Path(home) / "faults.html"
        subprocess.run([PROGRAM, "twin", "run", REPOSITORY / "scenarios/faults.toml", "--watch", watched], check=True, stdout=subprocess.DEVNULL)
        page = browser.new_page(viewport={"width": 1100, "height": 860})
        page.goto(watched.as_uri())
        page.get_by_label("Time", exact=True).fill(str(INSTANT_S * 1000))
        page.get_by_label("Machine").select_option("shuttle 3")
        page.locator(".chosen").get_by_text("Shuttle 3").wait_for()
        page.screenshot(path=folder / "watching.png")


def take_dashboard(browser: Browser, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, Own(Path(home)) as server:
        Filled(server)
        page = browser.new_page(viewport={"width": 1000, "height": 700})
        page.goto(server.said["dashboard"])
        for name, view in VIEWS.items():
            page.goto(f"{server.endpoint}/-/dashboard#/{view}")
            page.locator("main h1").wait_for()
            page.wait_for_load_state("networkidle")
            page.screenshot(path=folder / f"{name}.png")
        take_activity(page, server, folder)
        take_platters(page, server, folder)
        take_restores(page, server, folder)


def take_activity(page, server: Own, folder: Path) -> None:
    """Some minutes of puts and gets that come and go, and sets that are written."""
    s3 = connect(server.server, server.account)
    begun = time.monotonic()
    number = 0
    while (elapsed := time.monotonic() - begun) < LOAD_S:
        key = f"plates/{number % 300}"
        s3.put_object(Bucket="survey", Key=key, Body=os.urandom(200_000))
        for _ in range(3):
            s3.get_object(Bucket="survey", Key=key)["Body"].read()
        number += 1
        if number % 120 == 0:
            server.run("flush")
        time.sleep(0.05 + 0.4 * math.sin(elapsed / 20) ** 2)
    page.set_viewport_size({"width": 1240, "height": 620})
    page.goto(f"{server.endpoint}/-/dashboard#/activity")
    page.get_by_text("Time of writes").wait_for()
    page.screenshot(path=folder / "activity.png")
    page.set_viewport_size({"width": 1000, "height": 700})


def take_platters(page, server: Own, folder: Path) -> None:
    """Many sets, some with platters that are gone or damaged."""
    s3 = connect(server.server, server.account)
    for number in range(60):
        s3.put_object(Bucket="survey", Key=f"sets/{number}", Body=os.urandom(20_000))
        server.run("flush")
    files = [path for path in sorted((server.archive / "platters").rglob("*")) if path.is_file() and path.stat().st_size > 100_000]
    for gone in files[::37]:
        gone.unlink()
    damage(files[20])
    damage(files[41])
    server.run("verify")
    page.set_viewport_size({"width": 1000, "height": 320})
    page.goto(f"{server.endpoint}/-/dashboard#/platters")
    page.locator(".cell.damaged").first.wait_for()
    page.screenshot(path=folder / "platters.png")
    page.goto(f"{server.endpoint}/-/dashboard#/events")
    page.get_by_text("a command found").first.wait_for()
    page.screenshot(path=folder / "events.png")
    page.set_viewport_size({"width": 1000, "height": 700})
    server.run("scrub")


def take_restores(page, server: Own, folder: Path) -> None:
    """Restores that wait, in a library with a drive out of order."""
    s3 = connect(server.server, server.account)
    for number in range(12):
        s3.put_object(Bucket="survey", Key=f"plates/{1890 + number}.tif", Body=os.urandom(20_000), StorageClass="GLACIER")
        if number % 3 == 2:
            server.run("flush")
    with_library(server, 1)
    s3 = connect(server.server, server.account)
    server.run("library", "fault", "drive", "3")
    for number in range(12):
        s3.restore_object(Bucket="survey", Key=f"plates/{1890 + number}.tif", RestoreRequest={"Days": 7})
    page.goto(server.said["dashboard"])
    page.goto(f"{server.endpoint}/-/dashboard#/restores")
    page.get_by_text("carries its platter").first.wait_for()
    page.screenshot(path=folder / "restores.png")
    page.set_viewport_size({"width": 1000, "height": 1010})
    page.goto(f"{server.endpoint}/-/dashboard#/library")
    page.get_by_label("Machine").select_option("shuttle 3")
    # Until the fault is detected, and some restores have ended.
    page.locator(".facts span", has_text="out of order 1").wait_for(timeout=300_000)
    page.wait_for_timeout(10_000)
    page.screenshot(path=folder / "library.png")


if __name__ == "__main__":
    main()
