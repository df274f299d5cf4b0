"""The dashboard in a real browser, against a real server."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from conftest import PATIENCE_MS, Filled
from serving import Own, connect

expect.set_options(timeout=PATIENCE_MS)

GOOD = "read within 30 days and found good"
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">/\"'&<b>.txt"


def opened(page: Page, server: Own) -> Page:
    page.goto(server.said["dashboard"])
    expect(page.locator("#verdict")).to_be_visible()
    return page


def platter_files(server: Own, store: str) -> list:
    return [path for path in sorted((server.archive / "platters" / store).rglob("*")) if path.is_file() and path.stat().st_size > 100_000]


def test_the_printed_link_opens_the_dashboard_and_hides_its_token(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(), filled.server)
    expect(page.locator("#verdict")).to_contain_text(f"All 3 platters were {GOOD}")
    token = filled.server.said["dashboard"].partition("#token=")[2]
    assert len(token) > 20 and token not in page.url
    page.reload()
    expect(page.locator("#verdict")).to_contain_text(GOOD)
    assert token not in filled.server.log.read_text()


def test_without_the_token_there_is_only_a_form(filled: Filled, new_page: Callable[..., Page]):
    page = new_page(expected=("401",))
    page.goto(filled.server.endpoint + "/-/dashboard#/objects/survey")
    field = page.get_by_label("Token")
    expect(field).to_be_focused()
    assert "survey" not in page.content()
    field.fill("not-the-token-of-this-server")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This token is wrong.")
    page.get_by_label("Token").fill("moonlight\u2013sonata\u2013fourteen")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This token is wrong.")
    # The whole link does, too.
    page.get_by_label("Token").fill(filled.server.said["dashboard"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="fresh.txt")).to_be_visible()


def test_an_object_shows_its_copies_and_when_they_were_verified(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(), filled.server)
    page.get_by_role("link", name="Objects").click()
    page.get_by_role("link", name="survey").click()
    staged = page.get_by_role("row", name="fresh.txt")
    expect(staged).to_contain_text("staging")
    page.get_by_role("link", name="night/").click()
    page.get_by_role("link", name="1/").click()
    expect(page.get_by_role("row", name="0002")).to_contain_text("✓ good")
    page.get_by_role("link", name="0002").click()
    copies = page.get_by_role("table", name="Copies")
    expect(copies).to_contain_text("✓ good")
    expect(copies.locator("time").first).to_contain_text("ago")

    evidence = filled.server.run("--json", "fixity", "survey/night/1/0002")
    copy = json.loads(evidence.stdout)["copies"][0]
    expect(copies).to_contain_text(copy["platter"])
    assert copies.locator("time").first.get_attribute("datetime") == copy["verified"]
    page.go_back()
    expect(page.get_by_role("heading", name="night/1/")).to_be_visible()


def test_lost_platters_and_absent_stores_are_told_without_a_reload(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(), filled.server)
    expect(page.locator("#verdict")).to_contain_text(GOOD)
    [lost] = platter_files(filled.server, "d1")
    lost.rename(filled.server.archive / "kept")
    verified = filled.server.run("verify")
    assert verified.returncode != 0, verified.stdout
    expect(page.locator("#verdict")).to_contain_text("1 platter missing from a store that is present")
    expect(page.locator("#verdict")).not_to_contain_text(GOOD)
    expect(page.get_by_role("table", name="Platters that are not good")).to_contain_text("✕ missing")

    store = filled.server.archive / "platters" / "d2"
    store.rename(store.with_name("away"))
    expect(page.locator("#verdict")).to_contain_text("1 platter on absent or unknown stores")
    expect(page.locator("#verdict")).to_contain_text("1 set has more platters bad or out of reach than its redundancy replaces")
    expect(page.get_by_role("table", name="Stores").get_by_role("row", name="d2")).to_contain_text("store absent")

    store.with_name("away").rename(store)
    (filled.server.archive / "kept").rename(lost)
    expect(page.locator("#verdict")).not_to_contain_text("absent")
    verified = filled.server.run("verify")
    assert verified.returncode == 0, verified.stdout
    expect(page.locator("#verdict")).to_contain_text(GOOD)


def test_a_page_that_can_not_be_loaded_again_says_that_it_is_out_of_date(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(expected=("ERR_CONNECTION_REFUSED", "Failed to load resource")), filled.server)
    expect(page.get_by_role("status")).to_be_empty()
    filled.server.stop()
    expect(page.get_by_role("status")).to_have_text("Not up to date: The server can't be reached.")


def test_a_server_that_hangs_is_named(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(), filled.server)
    filled.server.process.send_signal(signal.SIGSTOP)
    try:
        expect(page.get_by_role("status")).to_have_text("Not up to date: The server didn't answer within 20 seconds.")
        page.get_by_role("link", name="Objects").click()
        expect(page.get_by_role("status")).to_have_text("Loading …")
    finally:
        filled.server.process.send_signal(signal.SIGCONT)
    expect(page.get_by_role("heading", name="Buckets")).to_be_visible()
    expect(page.get_by_role("status")).to_be_empty()


def test_a_page_that_waits_for_its_reader_says_so(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(), filled.server)
    page.locator("#verdict").select_text()
    expect(page.get_by_role("status")).to_have_text("Not up to date: the page waits while text in it is selected.")
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.get_by_role("status")).to_be_empty()


def test_dates_are_told_by_the_clock_of_the_server(filled: Filled, new_page: Callable[..., Page]):
    page = new_page()
    page.clock.install(time="2020-01-01")
    page.goto(filled.server.said["dashboard"])
    page.goto(filled.server.endpoint + "/-/dashboard#/objects/survey?key=night/0/0000")
    verified = page.get_by_role("table", name="Copies").locator("time").first
    expect(verified).to_contain_text("ago")
    assert "day" not in verified.inner_text()


def test_a_lost_platter_stays_lost_when_its_store_goes_away(filled: Filled, new_page: Callable[..., Page]):
    [lost] = platter_files(filled.server, "d1")
    content = bytearray(lost.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 50_000] = bytes(50_000)
    lost.write_bytes(content)
    assert filled.server.run("verify").returncode == 1
    (filled.server.archive / "platters" / "d1").rename(filled.server.archive / "away")
    page = opened(new_page(), filled.server)
    expect(page.get_by_role("table", name="Stores").get_by_role("row", name="d1")).to_contain_text("store absent")
    expect(page.locator("#verdict")).to_contain_text("1 platter damaged when last read")
    (filled.server.archive / "away").rename(filled.server.archive / "platters" / "d1")


def test_names_of_objects_never_become_html(filled: Filled, new_page: Callable[..., Page]):
    filled.s3.put_object(Bucket="survey", Key=HOSTILE, Body=b"x")
    page = opened(new_page(expected=("404", "400")), filled.server)
    page.goto(filled.server.endpoint + "/-/dashboard#/objects/survey")
    folder, name = HOSTILE.split("/")
    page.get_by_role("link", name=folder + "/", exact=True).click()
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    assert page.locator("main img, main b").count() == 0
    assert page.title() == f"{HOSTILE} – Fulgurite"
    for crooked in ["#/objects/%E0%A4%A", "#/objects/survey?prefix=%ff", "#/__proto__", "#/objects/" + quote("<b>x</b>")]:
        page.goto(filled.server.endpoint + "/-/dashboard" + crooked)
        page.reload()
        expect(page.locator("main h1")).to_be_visible()
        assert page.locator("main b").count() == 0


# Shown as they are, these names look like others: a picture, and the same name twice.
DECEPTIVE = {
    "b\u202egpj.exe": "b\\u{202e}gpj.exe",
    "first\u200b": "first\\u{200b}",
    "tab\tline\u2028end": "tab\\tline\\u{2028}end",
    "\u061c\u200f\u2066x\u2069": "\\u{61c}\\u{200f}\\u{2066}x\\u{2069}",
    "soft\u00adjoined\u200d\ufe0f\U000e0041": "soft\\u{ad}joined\\u{200d}\\u{fe0f}\\u{e0041}",
    "\u05e9\u05dc\u05d5\u05dd": "\u05e9\u05dc\u05d5\u05dd",
}


def test_hidden_characters_of_names_are_escaped_wherever_they_are_shown(filled: Filled, new_page: Callable[..., Page]):
    server = filled.server
    for key in DECEPTIVE:
        filled.s3.put_object(Bucket="survey", Key=f"{key}/{key}", Body=b"x", StorageClass="GLACIER")
    assert server.run("flush").returncode == 0
    with_library(server, 1)
    page = opened(new_page(), server)
    for shown in DECEPTIVE.values():
        page.goto(f"{server.endpoint}/-/dashboard#/objects/survey")
        page.get_by_role("link", name=f"{shown}/", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"{shown}/")
        expect(page.get_by_role("navigation", name="Path").get_by_role("link", name=shown, exact=True)).to_be_visible()
        page.get_by_role("table").get_by_role("link", name=shown, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"{shown}/{shown}")
        assert page.title() == f"{shown}/{shown} – Fulgurite"
    s3 = connect(server.server, server.account)
    for key in DECEPTIVE:
        s3.restore_object(Bucket="survey", Key=f"{key}/{key}", RestoreRequest={"Days": 1})
    page.goto(f"{server.endpoint}/-/dashboard#/restores")
    for shown in DECEPTIVE.values():
        expect(page.get_by_role("rowheader", name=f"survey/{shown}/{shown}", exact=True)).to_be_visible()
    # The log names each restore that ends.
    with_library(server, 100)
    page.goto(server.said["dashboard"])
    page.get_by_role("link", name="Events").click()
    for shown in DECEPTIVE.values():
        expect(page.get_by_role("table", name="Events of the log")).to_contain_text(f"{shown}/{shown}")


def test_an_object_that_is_a_page_has_an_origin_of_its_own(filled: Filled, new_page: Callable[..., Page]):
    script = """<script>
        let found = [];
        try { sessionStorage.getItem("fulgurite-token"); found.push("storage"); } catch { found.push("no storage"); }
        fetch("/-/dashboard/api/overview").then(() => found.push("answer"), () => found.push("no answer"))
            .finally(() => { document.title = found.join(", "); });
    </script>"""
    filled.s3.put_object(Bucket="survey", Key="page.html", Body=script.encode(), ContentType="text/html")
    page = opened(new_page(expected=("CORS", "Failed to load", "401")), filled.server)
    link = filled.s3.generate_presigned_url("get_object", Params={"Bucket": "survey", "Key": "page.html"})
    page.goto(link)
    expect(page).to_have_title("no storage, no answer")
    filled.s3.put_object(Bucket="survey", Key="paper.pdf", Body=b"%PDF-1.4", ContentType="application/pdf")
    link_to_paper = filled.s3.generate_presigned_url("get_object", Params={"Bucket": "survey", "Key": "paper.pdf"})
    answer = page.request.get(link_to_paper)
    assert answer.ok and "content-security-policy" not in answer.headers, "browsers show no PDF in a sandbox"
    again = page.request.get(link_to_paper, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status == 304 and "content-security-policy" not in again.headers, "it would become that of the cached PDF"


def test_the_dashboard_works_by_keyboard(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(), filled.server)
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Objects":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Buckets")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="fresh.txt")).to_be_visible()


def test_each_view_fits_a_phone_and_a_small_screen_in_light_and_dark(filled: Filled, new_page: Callable[..., Page]):
    filled.s3.put_object(Bucket="survey", Key="a-long-name-without-any-space-" * 20, Body=b"x")
    colors = set()
    for width, height, scheme in [(360, 740, "dark"), (1280, 800, "light")]:
        page = opened(new_page(viewport={"width": width, "height": height}, color_scheme=scheme), filled.server)
        colors.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        for view in ["fixity", "objects", "objects/survey", "objects/survey?key=night/0/0000"]:
            page.goto(f"{filled.server.endpoint}/-/dashboard#/{view}")
            expect(page.locator("main h1")).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (view, width)
    assert len(colors) == 2


def test_long_listings_have_pages(filled: Filled, new_page: Callable[..., Page]):
    for number in range(130):
        filled.s3.put_object(Bucket="survey", Key=f"many/{number:03}", Body=b"x")
    page = opened(new_page(), filled.server)
    page.goto(filled.server.endpoint + "/-/dashboard#/objects/survey?prefix=many/")
    expect(page.get_by_role("link", name="099")).to_be_visible()
    expect(page.get_by_role("link", name="100")).to_have_count(0)
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="129")).to_be_visible()
    expect(page.get_by_role("link", name="Next page")).to_have_count(0)


def test_a_dashboard_can_be_turned_off_and_have_a_token_of_its_own(archive: Own, new_page: Callable[..., Page]):
    settings = archive.archive / "service.toml"
    written = settings.read_text()
    assert "[dashboard]\n" in written
    archive.stop()
    settings.write_text(written.replace("enabled = true", 'enabled = true\ntoken = "moonlight-sonata-14"'))
    archive.start()
    assert archive.said["dashboard"] == archive.endpoint + "/-/dashboard"
    page = new_page()
    page.goto(archive.said["dashboard"] + "#token=moonlight-sonata-14")
    expect(page.locator("#verdict")).to_contain_text("No platter was written yet")
    archive.stop()
    settings.write_text(written.replace("enabled = true", "enabled = false"))
    archive.start()
    assert "dashboard" not in archive.said
    assert archive.get("/-/dashboard")[0] == 404
    archive.stop()
    settings.write_text(written.replace("enabled = true", 'token = "short"'))
    refused = archive.run("serve", "--listen", "127.0.0.1:0")
    assert refused.returncode == 1 and "16 or more letters" in refused.stderr, refused.stderr
    settings.write_text(written)
    archive.start()


LIBRARY = "[library]\nracks = 6\nslots = 20\n\n[shuttles]\ncount = 10\n\n[drives]\nleft = 5\nright = 5\n"


def with_library(server: Own, time_scale: int) -> None:
    """Starts the server again, with a library."""
    server.stop()
    (server.archive / "library.toml").write_text(LIBRARY)
    (server.archive / "service.toml").write_text(f'[library]\nlayout = "library.toml"\ntime_scale = {time_scale}\n')
    server.start()


def test_open_restores_say_what_they_wait_for_and_machines_what_they_do(filled: Filled, new_page: Callable[..., Page]):
    server = filled.server
    for key in ("first", HOSTILE):
        filled.s3.put_object(Bucket="survey", Key=key, Body=b"a restore waits for a shuttle", StorageClass="GLACIER")
    assert server.run("flush").returncode == 0
    with_library(server, 1)
    page = new_page()
    page.goto(server.said["dashboard"])
    page.get_by_role("link", name="Restores").click()
    expect(page.locator("#restores")).to_contain_text("No restore is open.")
    s3 = connect(server.server, server.account)
    for key in ("first", HOSTILE):
        s3.restore_object(Bucket="survey", Key=key, RestoreRequest={"Days": 1})
    row = page.get_by_role("table", name="Open restores").get_by_role("row", name="survey/first")
    expect(row).to_contain_text("Standard")
    expect(row).to_contain_text("shuttle")
    expect(page.get_by_role("table", name="Open restores")).to_contain_text(HOSTILE)
    expect(page.get_by_role("table", name="Shuttles").get_by_role("row")).to_have_count(11)

    assert server.run("library", "fault", "drive", "3").returncode == 0
    drive = page.get_by_role("table", name="Drives").get_by_role("row", name="3 ", exact=False).first
    expect(page.locator("#restores")).to_contain_text("1 machine out of order")
    expect(drive).to_be_visible()

    with_library(server, 100)
    page.goto(server.said["dashboard"])
    page.get_by_role("link", name="Restores").click()
    expect(page.locator("#restores")).to_contain_text("No restore is open.")
    expect(page.get_by_text("Restored by drives").locator("..")).to_contain_text("2")


def fact(page: Page, name: str) -> int:
    return int(page.locator(".facts span", has_text=name).locator("b").inner_text())


def positions(page: Page) -> str:
    """A picture of the panel, which changes if anything moves."""
    return page.locator("canvas").first.evaluate("canvas => canvas.toDataURL()")


def test_the_library_is_seen_in_motion(filled: Filled, new_page: Callable[..., Page]):
    server = filled.server
    for number in range(30):
        filled.s3.put_object(Bucket="survey", Key=f"plate/{number}", Body=os.urandom(30_000), StorageClass="GLACIER")
        if number % 5 == 4:
            assert server.run("flush").returncode == 0
    with_library(server, 5)
    page = new_page()
    page.goto(server.said["dashboard"])
    page.get_by_role("link", name="Library").click()
    expect(page.locator(".facts")).to_contain_text("open requests 0")
    expect(page.get_by_text("10 shuttles, 10 drives, 5 times as fast as real time")).to_be_visible()
    s3 = connect(server.server, server.account)
    before = positions(page)
    for number in range(30):
        s3.restore_object(Bucket="survey", Key=f"plate/{number}", RestoreRequest={"Days": 1})
    page.wait_for_function("() => Number(document.querySelector('.facts b').textContent) > 0")
    page.wait_for_function("before => document.querySelector('canvas').toDataURL() !== before", arg=before)

    # A second page begins in the middle, and sees the same.
    other = new_page()
    other.goto(server.said["dashboard"])
    other.get_by_role("link", name="Library").click()
    expect(other.locator(".facts")).to_contain_text("open requests")

    # Machines are chosen, and say what they do.
    page.get_by_label("Machine").select_option("shuttle 2")
    expect(page.locator(".chosen")).to_contain_text("Shuttle 2:")
    assert server.run("library", "fault", "drive", "3").returncode == 0
    page.get_by_label("Machine").select_option("drive 3")
    expect(page.locator(".chosen")).to_have_text("Drive 3: failed")
    expect(other.locator(".facts")).to_contain_text("out of order 1")
    expect(page.locator(".facts")).to_contain_text("open requests 0")
    expect(other.locator(".facts")).to_contain_text("open requests 0")
    assert fact(page, "ended without bytes") == 0


def test_new_platters_at_the_write_rack_are_counted(filled: Filled, new_page: Callable[..., Page]):
    server = filled.server
    with_library(server, 1)
    # No shuttle takes them to a drive.
    for number in range(10):
        assert server.run("library", "fault", "shuttle", str(number)).returncode == 0
    page = opened(new_page(), server)
    page.get_by_role("link", name="Library").click()
    expect(page.locator(".facts")).to_contain_text("platters that wait 0to verify 0")
    connect(server.server, server.account).put_object(Bucket="survey", Key="new", Body=os.urandom(20_000))
    assert server.run("flush").returncode == 0
    expect(page.locator(".facts")).to_contain_text("platters that wait 0to verify 2")


def test_the_library_in_motion_needs_the_token_and_a_library(filled: Filled, new_page: Callable[..., Page]):
    stream = f"{filled.server.endpoint}/-/dashboard/api/motions"
    for headers in ({}, {"authorization": "Bearer wrong"}):
        request = urllib.request.Request(stream, headers=headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert refused.value.code == 401
    page = opened(new_page(expected=("404",)), filled.server)
    page.get_by_role("link", name="Library").click()
    expect(page.get_by_role("status").last).to_contain_text("the server has no library")


def test_a_wrong_token_ends_at_the_form(filled: Filled, new_page: Callable[..., Page]):
    with_library(filled.server, 1)
    page = new_page(expected=("401",))
    page.goto(filled.server.endpoint + "/-/dashboard#/library")
    page.get_by_label("Token").fill("not-the-token-of-this-server")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This token is wrong.")


def test_readers_of_the_motions_are_let_go_when_the_server_stops(filled: Filled):
    """A stream lasts as long as its reader wants, and ends when the server stops."""
    server = filled.server
    with_library(server, 100)
    token = server.said["dashboard"].partition("#token=")[2]
    streams = []
    for _ in range(50):
        request = urllib.request.Request(f"{server.endpoint}/-/dashboard/api/motions", headers={"authorization": f"Bearer {token}"})
        streams.append(urllib.request.urlopen(request, timeout=60))
        assert streams[-1].readline() == b"event: picture\n"
    server.stop()
    for stream in streams:
        # It ends, and not in the middle of an event.
        assert stream.read().endswith(b"\n\n")
    server.start()


def test_without_a_library_the_restores_say_so(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(), filled.server)
    page.get_by_role("link", name="Restores").click()
    expect(page.locator("#restores")).to_contain_text("The server has no library")


def damage(platter: Path) -> None:
    with open(platter, "r+b") as file:
        file.seek(50_000)
        file.write(bytes(300_000))


def test_the_map_shows_each_platter_and_leads_to_its_set(filled: Filled, new_page: Callable[..., Page]):
    server = filled.server
    for number in range(5):
        filled.s3.put_object(Bucket="survey", Key=f"more/{number}", Body=os.urandom(20_000))
        assert server.run("flush").returncode == 0
    page = opened(new_page(), server)
    page.get_by_role("link", name="Platters", exact=True).click()
    columns = page.locator("svg a.column")
    expect(columns).to_have_count(6)
    first = page.get_by_role("link", name="Set 1: none of 3 platters lost or out of reach; all read and found good within 1 day")
    expect(first.locator(".cell.good")).to_have_count(3)
    sets = platter_files(server, "d1")
    sets[0].unlink()
    damage(sets[1])
    assert server.run("verify").returncode == 1
    expect(page.locator("svg a .cell.missing")).to_have_count(1)
    expect(page.locator("svg a .cell.damaged")).to_have_count(1)
    expect(page.locator("svg a .cross")).to_have_count(2)

    # By the keyboard, to a column with a loss.
    columns.first.focus()
    reached = columns.evaluate_all("links => links.findIndex((link) => link.querySelector('.missing'))")
    for _ in range(reached):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    table = page.get_by_role("table", name="Platters of the set")
    expect(table).to_contain_text("✕ missing")
    expect(table.get_by_role("row")).to_have_count(3 if reached else 4)
    assert page.url.rsplit("/", 1)[1] in page.content()

    page.go_back()
    page.get_by_role("link", name="Last read").click()
    expect(page.locator("svg a .cell.age0").first).to_be_visible()
    expect(page.locator("svg a .cross")).to_have_count(2)
    page.goto(f"{server.endpoint}/-/dashboard#/platters?from=2&count=2")
    expect(columns).to_have_count(2)
    page.get_by_role("link", name="All sets").click()
    expect(columns).to_have_count(6)


def focused(page: Page) -> str:
    """What has the focus, as a path of names of elements, and its label."""
    return page.evaluate("document.activeElement.tagName + ' ' + (document.activeElement.querySelector('title')?.textContent ?? document.activeElement.textContent)")


def test_the_map_is_used_with_the_keyboard_alone(filled: Filled, new_page: Callable[..., Page]):
    server = filled.server
    for number in range(3):
        filled.s3.put_object(Bucket="survey", Key=f"more/{number}", Body=os.urandom(20_000))
        assert server.run("flush").returncode == 0
    page = opened(new_page(), server)
    page.goto(f"{server.endpoint}/-/dashboard#/platters")
    expect(page.locator("svg a.column")).to_have_count(4)
    page.reload()
    expect(page.locator("svg a.column")).to_have_count(4)

    def press(key: str) -> str:
        page.keyboard.press(key)
        return focused(page)

    stops = [press("Tab")]
    while not stops[-1].startswith("a Set"):
        assert len(stops) < 20, stops
        stops.append(press("Tab"))
    assert not any(stop.startswith("svg") for stop in stops), stops
    assert stops[-2:] == ["A Last read", stops[-1]] and stops[-1].startswith("a Set 1:")
    assert press("ArrowRight").startswith("a Set 2:")
    assert press("End").startswith("a Set 4:")
    assert press("ArrowLeft").startswith("a Set 3:")
    assert press("Home").startswith("a Set 1:")
    assert press("ArrowRight").startswith("a Set 2:")
    # The map is one stop, and is entered where it was left.
    assert not press("Tab").startswith(("svg", "a "))
    assert press("Shift+Tab").startswith("a Set 2:")
    set_2 = page.evaluate("document.activeElement.getAttribute('href')")
    # Also when the page has refreshed itself.
    page.evaluate("document.querySelector('svg.map').dataset.old = ''; document.querySelector('.choice a').focus()")
    expect(page.locator("svg.map[data-old]")).to_have_count(0)
    press("Tab")
    assert press("Tab").startswith("a Set 2:")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Platters of the set").get_by_role("row")).to_have_count(3)
    assert page.url.endswith(set_2)


def test_activity_is_measured_while_the_server_runs(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(), filled.server)
    page.get_by_role("link", name="Activity").click()
    for number in range(20):
        filled.s3.put_object(Bucket="survey", Key=f"active/{number}", Body=os.urandom(1_000))
        filled.s3.get_object(Bucket="survey", Key=f"active/{number}")["Body"].read()
    table = page.get_by_role("table", name="Requests by five minutes")
    expect(table.get_by_role("row").nth(1).get_by_role("cell").nth(0)).to_have_text("20")
    for title in ("Requests per second", "Time of reads", "Time of writes", "Received per second", "In staging", "Versions on platters"):
        expect(page.get_by_role("img", name=title)).to_be_visible()
    expect(page.locator("main")).to_contain_text("Failed in the servernone")


def test_events_tell_what_the_log_has(filled: Filled, new_page: Callable[..., Page]):
    page = opened(new_page(), filled.server)
    page.get_by_role("link", name="Events").click()
    expect(page.locator("#verdict")).to_contain_text("0 errors and 0 warnings")
    expect(page.get_by_role("table")).to_contain_text("finished a command")
    damage(platter_files(filled.server, "d1")[0])
    assert filled.server.run("verify").returncode == 1
    expect(page.locator("#verdict")).to_contain_text("1 warning")
    page.get_by_role("link", name="Warnings and errors").click()
    table = page.get_by_role("table")
    expect(table).to_contain_text("a command found something that is not good")
    expect(table).not_to_contain_text("finished a command")
    assert "a command found something that is not good" in filled.server.log.read_text()


LONG = "a-long-name-without-any-space-" * 20


def wide_boxes(page: Page) -> list[str]:
    """Boxes whose content has to be scrolled sideways."""
    boxes = "[...document.querySelectorAll('html, .scroll')].filter((box) => box.scrollWidth > box.clientWidth)"
    return page.evaluate(f"{boxes}.map((box) => box.getAttribute('aria-label') ?? box.tagName)")


def test_no_view_scrolls_sideways_on_a_phone(filled: Filled, new_page: Callable[..., Page]):
    server = filled.server
    filled.s3.put_object(Bucket="survey", Key=LONG, Body=b"x")
    damage(platter_files(server, "d1")[0])
    assert server.run("verify").returncode == 1
    page = opened(new_page(viewport={"width": 375, "height": 760}), server)
    views = ["fixity", "platters", "objects", "objects/survey", "objects/survey?key=night/0/0000", "objects/survey?key=" + LONG, "activity", "events"]
    for view in views:
        page.goto(f"{server.endpoint}/-/dashboard#/{view}")
        # Without what the view before showed.
        page.reload()
        expect(page.locator("main h1")).to_be_visible()
        assert wide_boxes(page) == [], view
    page.goto(f"{server.endpoint}/-/dashboard#/platters")
    page.locator("svg a.column").first.press("Enter")
    table = page.get_by_role("table", name="Platters of the set")
    expect(table).to_contain_text("✕ damaged")
    assert wide_boxes(page) == []


def test_open_restores_can_be_read_on_a_phone_and_beside_a_long_key(filled: Filled, new_page: Callable[..., Page]):
    server = filled.server
    for key in ("short", LONG):
        filled.s3.put_object(Bucket="survey", Key=key, Body=b"x", StorageClass="GLACIER")
    assert server.run("flush").returncode == 0
    with_library(server, 1)
    # They stay open.
    for number in range(10):
        assert server.run("library", "fault", "shuttle", str(number)).returncode == 0
    s3 = connect(server.server, server.account)
    for key in ("short", LONG):
        s3.restore_object(Bucket="survey", Key=key, RestoreRequest={"Days": 1})

    def row_of_short(width: int, height: int):
        page = opened(new_page(viewport={"width": width, "height": height}), server)
        page.goto(f"{server.endpoint}/-/dashboard#/restores")
        row = page.get_by_role("table", name="Open restores").get_by_role("row", name="survey/short")
        expect(row).to_be_visible()
        assert wide_boxes(page) == [], width
        return page, row

    page, row = row_of_short(390, 844)
    expect(page.get_by_role("columnheader", name="Waits for")).to_have_count(1)
    waits_for = row.get_by_role("cell").nth(2)
    assert "Waits for" in waits_for.evaluate("cell => getComputedStyle(cell, '::before').content")
    box = waits_for.bounding_box()
    assert 0 <= box["x"] and box["x"] + box["width"] <= 390 and row.bounding_box()["height"] < 140

    page, row = row_of_short(1280, 800)
    one_line = page.get_by_role("table", name="Drives").get_by_role("row").last.bounding_box()["height"]
    assert row.bounding_box()["height"] <= 2 * one_line
    assert row.get_by_role("cell").nth(2).bounding_box()["width"] > 250
