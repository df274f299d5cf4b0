#!/usr/bin/env python3
"""What a server with a robotic library costs, with pages that watch it and without, and how smoothly a browser draws it.

    cargo build --release
    python3 crates/service/benches/live_library.py --program target/release/fulgurite [--sets 300] [--seconds 60] [--rounds 3] [--pages 100]

Needs boto3, and for the frames Chromium and Playwright (tests/s3/requirements.txt and tests/dashboard/requirements.txt). The library is the early one
(20 shuttles, 20 drives) at 100 times real time, and 40 shuttles for the frames. Printed are shares of one core, from the process's own times.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import boto3
from botocore.config import Config

TOKEN = "a-token-of-32-letters-and-digits"
SCALE = 100
EACH = 20
FORTY = "[shuttles]\ncount = 40\n"


class Server:
    def __init__(self, program: Path, folder: Path):
        self.program, self.archive, self.process = program, folder / "archive", None
        self.account = None
        stores = [f"--store={folder}/d{number}" for number in (1, 2, 3)]
        subprocess.run([program, "init", self.archive, "--set", "2+1", *stores], check=True, capture_output=True)

    def start(self, layout: str | None, scale: int = SCALE) -> None:
        library = f'[library]\nlayout = "{layout}"\ntime_scale = {scale}\n' if layout else ""
        (self.archive / "service.toml").write_text(f'{library}\n[dashboard]\ntoken = "{TOKEN}"\n')
        command = [self.program, "-A", self.archive, "--json", "serve", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "RUST_LOG": "error"})
        said = json.loads(self.process.stdout.readline())
        self.endpoint = said["endpoint"]
        self.account = self.account or (said["access_key"], said["secret_key"])
        access, secret = self.account
        config = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2})
        self.s3 = boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id=access, aws_secret_access_key=secret, region_name=said["region"], config=config)

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(60) == 0

    def run(self, *arguments: str) -> dict:
        done = subprocess.run([self.program, "-A", self.archive, "--json", *arguments], check=True, capture_output=True, text=True)
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Page:
    """Reads the events of the library as a page does, and forgets them."""

    def __init__(self, server: Server):
        request = urllib.request.Request(f"{server.endpoint}/-/dashboard/api/motions", headers={"Authorization": f"Bearer {TOKEN}"})
        self.answer, self.bytes = urllib.request.urlopen(request, timeout=60), 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        try:
            while part := self.answer.read1(1 << 16):
                self.bytes += len(part)
        except (OSError, ValueError, AttributeError):
            pass


class Restores:
    """Asks for restores at a rate, of one object after another."""

    def __init__(self, server: Server, keys: list[str], per_s: float):
        self.server, self.keys, self.per_s, self.asked, self.ends = server, keys, per_s, 0, threading.Event()
        self.thread = threading.Thread(target=self.ask, daemon=True)
        self.thread.start()

    def ask(self) -> None:
        begun = time.monotonic()
        while not self.ends.wait(max(0.0, begun + self.asked / self.per_s - time.monotonic())):
            key = self.keys[self.asked]
            self.server.s3.restore_object(Bucket="photos", Key=key, RestoreRequest={"Days": 1, "GlacierJobParameters": {"Tier": "Standard"}})
            self.asked += 1

    def end(self) -> None:
        self.ends.set()
        self.thread.join()


def share(server: Server, seconds: float) -> float:
    before, begun = server.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return 100 * (server.cpu_s() - before) / (time.monotonic() - begun)


def fill(server: Server, sets: int) -> list[str]:
    server.start(None)
    server.s3.create_bucket(Bucket="photos")
    keys = []
    for number in range(sets):
        for index in range(EACH):
            keys.append(f"{number:04}/{index}")
            server.s3.put_object(Bucket="photos", Key=keys[-1], Body=os.urandom(15_000), StorageClass="GLACIER")
        server.run("flush")
    server.stop()
    # Neighbours lie on one platter: a restore of each set in turn.
    return sorted(keys, key=lambda key: (key[5:], key))


def frames(server: Server, seconds: float) -> tuple[float, float, float]:
    """Frames a second, the longest gap between two, and the time for one frame's drawing (99 %), in milliseconds."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.add_init_script("""
            const ask = window.requestAnimationFrame.bind(window);
            window.frames_seen = [];
            window.requestAnimationFrame = (draw) => ask((at) => { const begun = performance.now(); draw(at); window.frames_seen.push([at, performance.now() - begun]); });
        """)
        page.goto(f"{server.endpoint}/-/dashboard#token={TOKEN}")
        page.goto(f"{server.endpoint}/-/dashboard#/library")
        page.get_by_label("Machine").wait_for()
        page.wait_for_timeout(3_000)
        page.evaluate("window.frames_seen.length = 0")
        page.wait_for_timeout(seconds * 1_000)
        seen = page.evaluate("window.frames_seen")
        browser.close()
    starts, drawn = [at for at, _ in seen], sorted(took for _, took in seen)
    gaps = [later - earlier for earlier, later in zip(starts, starts[1:])]
    return len(gaps) / sum(gaps) * 1_000, max(gaps), drawn[int(0.99 * len(drawn))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--per-s", type=float, default=20, help="restores asked for in a second of real time")
    options = parser.parse_args()
    program = options.program.resolve()
    with tempfile.TemporaryDirectory() as home:
        server = Server(program, Path(home))
        keys = fill(server, options.sets)
        found: dict[str, list[float]] = {}
        note = lambda name, value: found.setdefault(name, []).append(value)
        for round_number in range(options.rounds):
            per_round = int(options.per_s * (2 * options.seconds + 20))
            mine = keys[round_number * per_round :][:per_round]
            assert len(mine) == per_round, "too few objects: more --sets, or fewer --rounds"
            server.start(None)
            time.sleep(5)
            note("no library", share(server, options.seconds / 3))
            server.stop()
            server.start("early")
            time.sleep(5)
            note("library, no restores", share(server, options.seconds / 3))
            restores = Restores(server, mine, options.per_s)
            time.sleep(10)
            note("library, restores", share(server, options.seconds))
            pages = [Page(server) for _ in range(options.pages)]
            time.sleep(5)
            before = sum(page.bytes for page in pages)
            note(f"library, restores, {options.pages} pages", share(server, options.seconds))
            note("kB/s to a page", (sum(page.bytes for page in pages) - before) / options.seconds / options.pages / 1_000)
            restores.end()
            note("restores asked for in a second", restores.asked / (2 * options.seconds + 15))
            status = server.run("library", "status")
            note("open in the end", status["requests_open"])
            server.stop()
        for name, values in found.items():
            unit = "% of a core" if name.startswith(("no ", "library")) else ""
            print(f"{name}: {statistics.median(values):.2f} {unit} ({', '.join(f'{value:.2f}' for value in values)})", flush=True)
        (server.archive / "forty.toml").write_text(FORTY)
        unused = keys[options.rounds * per_round :]
        assert len(unused) >= 400, "too few objects: more --sets, or fewer --rounds"
        for index, scale in enumerate((1, 10)):
            server.start("forty.toml", scale)
            restores = Restores(server, unused[200 * index :], 5)
            time.sleep(5)
            try:
                rate, gap, drawing = frames(server, 15)
                print(f"40 shuttles at {scale} times real time: {rate:.1f} frames/s, longest gap {gap:.0f} ms, drawing {drawing:.2f} ms (99 %)", flush=True)
            finally:
                restores.end()
                server.stop()


if __name__ == "__main__":
    main()
