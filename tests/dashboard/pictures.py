"""Takes the pictures of docs/dashboard.md from a server with an archive of its own.

    FULGURITE_BIN=target/release/fulgurite python tests/dashboard/pictures.py docs/dashboard
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

# Behind this folder, which has a conftest of its own.
sys.path.append(str(Path(__file__).resolve().parent.parent / "s3"))

from playwright.sync_api import sync_playwright

from conftest import Filled
from serving import Own

VIEWS = {"fixity": "fixity", "object": "objects/survey?key=night/1/0002"}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, Own(Path(home)) as server, sync_playwright() as playwright:
        Filled(server)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 700})
        page.goto(server.said["dashboard"])
        for name, view in VIEWS.items():
            page.goto(f"{server.endpoint}/-/dashboard#/{view}")
            page.locator("main h1").wait_for()
            page.wait_for_load_state("networkidle")
            page.screenshot(path=folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
