"""The page that plays a journal, in a real browser, against the journal itself."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from conftest import PATIENCE_MS

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(os.environ.get("FULGURITE_BIN") or REPOSITORY / "target/debug/fulgurite").absolute()

# Its name must not become HTML.
NAME = "<img src=x onerror=alert(1)>.toml"
# With the write rack and two of drives.
RACKS = 10

SCENARIO = """
[library]
platters = 190
racks = 7

[workload]
rate = "0.3 /s"

[workload.bursts]
count = 0

[run]
warm_up = "0 s"
measured = "20 min"

[[faults.planned]]
at = "5 min"
what = "shuttle-stops"
number = 3

[[faults.planned]]
at = "6 min"
what = "drive-down"
number = 7
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("viewer")
    (folder / NAME).write_text(SCENARIO)
    command = [PROGRAM, "twin", "record", NAME, "run.journal", "--html", "run.html"]
    recorded = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert recorded.returncode == 0, recorded.stderr
    return folder


@pytest.fixture
def page(browser: Browser, folder: Path) -> Iterator[Page]:
    """The page, which may neither log an error nor ask anyone for anything."""
    faults: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.on("request", lambda sent: None if sent.url.startswith(("file:", "data:")) else faults.append(sent.url))
    page.goto((folder / "run.html").as_uri())
    expect(page.locator(".facts")).to_contain_text("open requests")
    yield page
    context.close()
    assert not faults, faults


def open_at(journal: str, instant: int) -> int:
    """The requests that have arrived by an instant and not ended, from the lines of a journal."""
    now, arrived, ended = 0, 0, 0
    for line in journal.splitlines():
        if re.match(r"\d+ ", line):
            now = int(line.split(" ")[0])
            if now > instant:
                break
            arrived += bool(re.match(r"\d+ R\d+ by ", line))
        ended += bool(re.match(r"> R\d+ ", line))
    return arrived - ended


def recording_of(folder: Path) -> dict:
    page = (folder / "run.html").read_text()
    packed = base64.b64decode(page.partition('type="application/octet-stream">')[2].partition("<")[0])
    return json.loads(zlib.decompress(packed, wbits=-zlib.MAX_WBITS))


def entries(numbers: list[int], length: int) -> list[list[int]]:
    """Entries of a list, with the times that the differences stand for."""
    found, before = [], 0
    for at in range(0, len(numbers), length):
        entry = numbers[at : at + length]
        before += entry[0]
        found.append([before, entry[1] + before if entry[1] >= 0 else -1, *entry[2:]])
    return found


def seek(page: Page, seconds: int) -> None:
    """Goes to an instant, and waits until the page shows it."""
    page.get_by_label("Time", exact=True).fill(str(seconds * 1000))
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


def fact(page: Page, name: str) -> int:
    found = page.locator(".facts span", has_text=name).locator("b")
    return int(found.inner_text())


def test_the_page_shows_what_the_journal_says(page: Page, folder: Path):
    journal = (folder / "run.journal").read_text()
    for minute in (1, 4, 9, 13, 19):
        seek(page, 60 * minute)
        expect(page.locator(".clock")).to_have_text(f"0:{minute:02}:00")
        # The page has milliseconds: the instant itself is not one of any event.
        assert fact(page, "open requests") == open_at(journal, minute * 60_000_000), f"minute {minute}"


def test_shuttles_are_at_the_drives_that_they_serve(folder: Path):
    recording = recording_of(folder)
    served = 0
    for _, legs, works, _ in recording["entries"]["shuttles"]:
        legs, works = entries(legs, 4), entries(works, 5)
        for since, _, _, _, drive in works:
            done = [leg for leg in legs if 0 <= leg[1] <= since]
            if drive >= 0 and done:
                assert done[-1][2:] == recording["layout"]["drives"][drive]
                served += 1
    assert served > 300


STATES = {"mount": 1, "unmount": 2, "switch": 3, "read": 4, "verify": 5}


def test_drives_do_what_the_journal_says(folder: Path):
    journal = (folder / "run.journal").read_text()
    states: dict[int, dict[int, int]] = {}
    running: dict[int, str] = {}
    now = 0
    for line in journal.splitlines():
        if instant := re.match(r"\d+", line):
            # Requests are inputs too.
            now = int(instant[0]) // 1000
        if event := re.match(r"\d+ L0 (\w+) D(\d+)(#\d+)?", line):
            drive = int(event[2])
            if event[1] in ("failed", "lost"):
                running.pop(drive, None)
                states.setdefault(drive, {})[now] = 6
            elif event[1] == "repaired" or running.get(drive) == event[3]:
                running.pop(drive, None)
                states.setdefault(drive, {})[now] = 0
        elif command := re.match(r"> L0 D(\d+)(#\d+) (\w+)", line):
            running[int(command[1])] = command[2]
            states.setdefault(int(command[1]), {})[now] = STATES[command[3]]
    recorded = recording_of(folder)["entries"]["drives"]
    assert [drive for drive, _ in recorded] == list(range(20))
    for drive, numbers in recorded:
        at, shown = 0, {}
        for index in range(0, len(numbers), 3):
            at += numbers[index]
            shown[at] = numbers[index + 1]
        assert shown == states[drive], f"drive {drive}"


def test_failures_are_seen_from_when_they_were_detected(page: Page, folder: Path):
    journal = (folder / "run.journal").read_text()
    lost = re.findall(r"^(\d+) L0 (?:failed|lost) [SD]", journal, re.MULTILINE)
    assert len(lost) == 2
    seek(page, int(lost[0]) // 1_000_000)
    assert fact(page, "out of order") == 0
    seek(page, int(lost[1]) // 1_000_000 + 1)
    assert fact(page, "out of order") == 2
    page.get_by_label("Machine").select_option("shuttle 3")
    expect(page.locator(".chosen")).to_contain_text("Shuttle 3: is out of order")
    page.get_by_label("Machine").select_option("drive 7")
    expect(page.locator(".chosen")).to_have_text("Drive 7: failed")


def test_it_plays_back_and_forth_and_by_keyboard(page: Page):
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".clock")).not_to_have_text("0:00:00")
    page.get_by_role("button", name="Pause").click()
    # Keys work on the button, the slider and elsewhere.
    for place in ("button", "input", "h1"):
        seek(page, 600)
        page.locator(place).click() if place == "h1" else page.locator(place).focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator(".clock")).to_have_text("0:10:10")
        page.keyboard.press("PageUp")
        expect(page.locator(".clock")).to_have_text("0:00:10")
        page.keyboard.press(" ")
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
        page.keyboard.press(" ")
        expect(page.get_by_role("button", name="Play")).to_be_visible()
    # Backwards, it stops at the beginning.
    seek(page, 60)
    page.get_by_label("Speed").select_option("-100")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".clock")).to_have_text("0:00:00")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.get_by_label("Speed").select_option("20")
    page.get_by_role("button", name="Play").click()
    # At the end it stops, and the next start is from the beginning.
    seek(page, 10_000)
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_a_click_chooses_the_machine_that_is_there(page: Page):
    panel = page.locator("canvas").first
    box = panel.bounding_box()
    assert box
    # Drive 0 is in the second rack, on the lowest shelf of ten.
    panel.click(position={"x": box["width"] * 1.5 / RACKS, "y": box["height"] * 0.95})
    expect(page.locator(".chosen")).to_contain_text("Drive 0: ")
    panel.click(position={"x": box["width"] * 0.5 / RACKS, "y": box["height"] * 0.95})
    expect(page.locator(".chosen")).to_contain_text("Click a shuttle or a drive")


def test_the_name_of_a_scenario_never_becomes_html(page: Page):
    expect(page.locator("h1")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("img").count() == 0
    assert page.title().startswith("<img")
