#!/usr/bin/env python3
"""`fulgurite audit` beside what bounds it, and beside other programs that do the same job.

    cargo build --release -p fulgurite
    cargo build --release -p fulgurite-audit --features postgres --example database_rates
    python3 crates/audit/benches/audit_peers.py --scratch FOLDER [--parts local,s3]
        [--rclone PROGRAM] [--versitygw PROGRAM]

The parts, and what is counted:

    local      large files in a folder: bytes a second of whole runs, beside plain reading and plain
               hashing with as many threads, and `rclone check --checkfile`
    s3         objects of an S3 server (rclone's and versitygw) over loopback and over a link of
               limited rate: bytes and objects a second, beside `curl --parallel` with as many
               connections
    small      small files at four nodes: files a second, beside rclone, bagit.py and ocfl-py
    isolation  checks a second of good nodes, alone, and with a node that never answers, one at a
               tenth of the speed, and one that fails half of its requests
    big        an inventory of --big-files at three nodes: time, peak memory and bytes of the
               database, of all commands
    database   imports, claims and results a second of `database_rates`, without files

A round runs all contenders in turn, so that what drifts drifts for all; tables have medians of the
rounds. Before each measurement that reads files, the page cache is dropped: by
/proc/sys/vm/drop_caches if this user may write it, else file by file. bagit.py and ocfl-py are
installed into target/audit-peers. rclone and versitygw are taken from the PATH, unless options name
them; without them their rows are left out. The limited link is a network namespace, and needs root.
The folder given by --scratch should be on the disk to be measured; what is written there is removed
in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import mmap
import multiprocessing
import os
import random
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
VENV = REPOSITORY / "target/audit-peers/venv"
PEERS = ["bagit==1.9.0", "ocfl-py==2.1.0", "setuptools==65.5.0"]
# Of a command, in seconds. Longer ones hang.
PATIENCE_S = 3_600
MIB = 1 << 20


@dataclass
class Ran:
    """A command that ended, and what it took."""

    seconds: float
    cpu_s: float
    peak_mib: float
    written_mib: float
    output: str


# Starts a command and reports what it used. A process inherits its peak memory from the one that starts
# it, so the latter has to be small.
LAUNCHER = """
import json, os, sys, time
begun = time.monotonic()
process = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(process, 0)
ran = [time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, used.ru_oublock / 2048]
os.write(int(sys.argv[1]), json.dumps([*ran, os.waitstatus_to_exitcode(status)]).encode())
"""


def measure(*command: object, ok: Sequence[int] = (0,), folder: Path | None = None, feed: Callable[[], Iterator[bytes]] | None = None) -> Ran:
    """Runs a command. The last 64 KiB of its standard output are kept."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as trouble, tempfile.TemporaryFile() as report:
        launcher = [sys.executable, "-ISc", LAUNCHER, str(report.fileno())]
        process = subprocess.Popen(
            [*launcher, *map(str, command)],
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=out,
            stderr=trouble,
            cwd=folder,
            pass_fds=[report.fileno()],
            start_new_session=True,
        )
        watchdog = threading.Timer(PATIENCE_S, os.killpg, [process.pid, signal.SIGKILL])
        watchdog.start()
        try:
            if feed and process.stdin:
                with process.stdin as pipe:
                    for piece in feed():
                        pipe.write(piece)
            process.wait()
        finally:
            watchdog.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        texts = []
        for stream in (out, trouble, report):
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - (64 << 10)))
            texts.append(stream.read().decode(errors="replace"))
    if not texts[2]:
        raise SystemExit(f"{' '.join(map(str, command))} could not be run:\n{texts[1]}")
    *used, status = json.loads(texts[2])
    if status not in ok:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {status}:\n{texts[0][-2000:]}\n{texts[1][-2000:]}")
    seconds, cpu, peak_mib, written_mib = used
    return Ran(seconds, cpu, peak_mib, written_mib, texts[0])


class Audit:
    """An audit in a folder of its own."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.program, self.folder = options.fulgurite, folder
        folder.mkdir(parents=True)
        self.do("init")

    def do(self, *words: object, ok: Sequence[int] = (0,), feed: Callable[[], Iterator[bytes]] | None = None) -> Ran:
        return measure(self.program, "audit", *words, ok=ok, folder=self.folder, feed=feed)

    def node(self, name: str, place: object, *settings: object, options: Sequence[str] = ()) -> None:
        self.do("node", "add", name, place, "--unreached", *settings, *(word for option in options for word in ("--option", option)))

    def again(self) -> None:
        """Brings back the database as it was at `save`."""
        for name in ("audit.db", "audit.db-wal", "audit.db-shm"):
            (self.folder / name).unlink(missing_ok=True)
        shutil.copyfile(self.folder / "saved.db", self.folder / "audit.db")
        os.sync()

    def save(self) -> None:
        for wal in self.folder.glob("audit.db-wal"):
            assert wal.stat().st_size == 0, "the database is open"
        shutil.copyfile(self.folder / "audit.db", self.folder / "saved.db")

    def bytes_on_disk(self) -> int:
        return sum(file.stat().st_size for file in self.folder.glob("audit.db*"))


def checked(ran: Ran, expected: int | None = None) -> dict[str, int]:
    """Verified copies by node, from what `audit --json run` printed."""
    verified = {}
    for line in ran.output.splitlines():
        said = json.loads(line)
        verified[said["node"]] = said["found"].get("verified", 0)
    assert expected is None or sum(verified.values()) == expected, f"{sum(verified.values())} of {expected} verified: {ran.output}"
    return verified


def drop_caches(folder: Path) -> None:
    """Makes what follows read from the disk."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        for file in folder.rglob("*"):
            if file.is_file():
                with file.open("rb") as opened:
                    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n### {title}\n\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    sys.stdout.flush()


def note(text: str) -> None:
    print(f"\n{text}", flush=True)


def progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def median(numbers: Sequence[float]) -> float:
    return statistics.median(numbers)


def spread(numbers: Sequence[float]) -> str:
    return f"{min(numbers):,.0f} to {max(numbers):,.0f}" if len(numbers) > 1 else ""


# Large files in a folder.


def write_large(folder: Path, files: int, size: int) -> str:
    """Writes files of random bytes. Returns their inventory."""
    folder.mkdir(parents=True)
    block = bytearray(random.Random(1).randbytes(16 * MIB))
    lines = ["path,bytes,sha256"]
    for number in range(files):
        digest = hashlib.sha256()
        with (folder / f"file-{number:03}").open("wb") as file:
            for piece in range(0, size, len(block)):
                block[:16] = number.to_bytes(8, "big") + piece.to_bytes(8, "big")
                part = memoryview(block)[: size - piece]
                file.write(part)
                digest.update(part)
            os.fsync(file.fileno())
        lines.append(f"file-{number:03},{size},{digest.hexdigest()}")
    return "\n".join(lines) + "\n"


def read_plain(files: Sequence[Path], threads: int, direct: bool) -> float:
    """Reads files with several threads, and does nothing with the bytes. Returns bytes a second."""

    def read(path: Path) -> int:
        # Direct reads need aligned memory.
        buffer = mmap.mmap(-1, MIB)
        opened = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
        total = 0
        while count := os.readv(opened, [buffer]):
            total += count
        os.close(opened)
        return total

    begun = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        total = sum(pool.map(read, files))
    return total / (time.monotonic() - begun)


def hash_plain(threads: int, size: int) -> float:
    """Hashes memory with several threads. Returns bytes a second."""
    block = random.Random(2).randbytes(256 << 10)

    def digest(_: int) -> None:
        sha256 = hashlib.sha256()
        for _ in range(size // threads // len(block)):
            sha256.update(block)

    begun = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(digest, range(threads)))
    return size / (time.monotonic() - begun)


def local(options: argparse.Namespace, scratch: Path) -> None:
    folder, size = scratch / "local/files", options.large_mib * MIB
    inventory = write_large(folder, options.large_files, size)
    files, total = sorted(folder.iterdir()), options.large_files * size
    audit = Audit(options, scratch / "local/audit")
    (audit.folder / "list.csv").write_text(inventory)
    sums = scratch / "local/SHA256SUMS"
    sums.write_text("".join(f"{sha256}  {name}\n" for name, _, sha256 in (line.split(",") for line in inventory.splitlines()[1:])))
    threads = options.threads
    audit.node("folder", folder, "--workers", threads)
    audit.do("inventory", "csv", "list.csv")
    audit.save()
    rates: dict[str, list[float]] = defaultdict(list)
    for number in range(options.rounds):
        progress(f"local: round {number + 1}")
        drop_caches(folder)
        rates["disk, direct"].append(read_plain(files, threads, direct=True))
        drop_caches(folder)
        rates["disk, buffered"].append(read_plain(files, threads, direct=False))
        rates["hash"].append(hash_plain(threads, min(total, 4 << 30)))
        audit.again()
        drop_caches(folder)
        ran = audit.do("--json", "run")
        checked(ran, options.large_files)
        rates["audit"].append(total / ran.seconds)
        rates["audit cpu"].append(ran.cpu_s / ran.seconds)
        if options.rclone:
            drop_caches(folder)
            ran = measure(options.rclone, "check", "-C", "sha256", sums, folder, "--checkers", threads)
            rates["rclone"].append(total / ran.seconds)
    bound = min(max(median(rates["disk, direct"]), median(rates["disk, buffered"])), median(rates["hash"]))
    names = {
        "disk, direct": "read, bypassing the page cache",
        "disk, buffered": "read by way of the page cache",
        "hash": "SHA-256 of memory (OpenSSL)",
        "audit": "**`fulgurite audit run`**",
        "rclone": "`rclone check --checkfile sha256`",
    }
    rows = [
        (name, f"{median(rates[key]) / 1e6:,.0f}", spread([rate / 1e6 for rate in rates[key]]), f"{median(rates[key]) / bound:.0%}")
        for key, name in names.items()
        if rates[key]
    ]
    title = f"Local files: {options.large_files} of {options.large_mib} MiB, {threads} threads, medians of {options.rounds}"
    table(title, ["", "MB/s", "all rounds", "of the bound"], rows)
    note(f"The audit used {median(rates['audit cpu']):.2f} cores.")
    shutil.rmtree(scratch / "local")


# Objects of S3 servers.

ACCESS, SECRET = "benchmarkkey00", "benchmarksecret0000"
NAMESPACE, INSIDE, OUTSIDE = "fulgurite-bench", "10.213.7.2", "10.213.7.1"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def link(mbit: int) -> Iterator[None]:
    """A network namespace with a link to it whose rate is limited, in the direction from it."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    inside = ["netns", "exec", NAMESPACE]
    ip("netns", "add", NAMESPACE)
    try:
        ip("link", "add", "fulgurite0", "type", "veth", "peer", "name", "fulgurite1", "netns", NAMESPACE)
        ip("addr", "add", f"{OUTSIDE}/30", "dev", "fulgurite0")
        ip("link", "set", "fulgurite0", "up")
        ip(*inside, "ip", "addr", "add", f"{INSIDE}/30", "dev", "fulgurite1")
        ip(*inside, "ip", "link", "set", "fulgurite1", "up")
        ip(*inside, "ip", "link", "set", "lo", "up")
        ip(*inside, "tc", "qdisc", "add", "dev", "fulgurite1", "root", "tbf", "rate", f"{mbit}mbit", "burst", "1mb", "latency", "50ms")
        yield
    finally:
        ip("netns", "del", NAMESPACE)


@contextlib.contextmanager
def server(options: argparse.Namespace, kind: str, root: Path, limited: bool) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """An S3 server on a folder. Yields its endpoint and its process."""
    host = INSIDE if limited else "127.0.0.1"
    port = free_port()
    keys = {"RCLONE_AUTH_KEY": f'"{ACCESS},{SECRET}"', "ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET, "RCLONE_CONFIG": str(root.parent / "none.conf")}
    commands = {
        # Without a cache of its own. Its ETag would cost an MD5 of each object.
        "rclone": [options.rclone, "serve", "s3", "--addr", f"{host}:{port}", "--etag-hash", "none", root],
        "versitygw": [options.versitygw, "--quiet", "--keep-alive", "--port", f"{host}:{port}", "posix", root],
    }
    command = [str(word) for word in commands[kind]]
    log = (root.parent / "server.log").open("wb")
    inside = ["ip", "netns", "exec", NAMESPACE] if limited else []
    process = subprocess.Popen([*inside, *command], env=os.environ | keys, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection((host, port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{kind} did not start: {(root.parent / 'server.log').read_text()}") from None
                time.sleep(0.1)
        yield f"http://{host}:{port}", process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        log.close()


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SIGNED = ["--user", f"{ACCESS}:{SECRET}", "--aws-sigv4", "aws:amz:us-east-1:s3", "--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]


def curl(endpoint: str, names: Sequence[str], connections: int, scratch: Path) -> Ran:
    """Gets objects as plainly as possible, signed, with several connections, and drops the bytes."""
    config = scratch / "curl.conf"
    config.write_text("".join(f'url = "{endpoint}/bucket/{name}"\noutput = "/dev/null"\n' for name in names))
    parallel = ["--parallel", "--parallel-immediate", "--parallel-max", str(connections)]
    return measure("curl", "--silent", "--show-error", "--fail-early", "--fail", *parallel, *SIGNED, "--config", config)


def curl_and_hash(endpoint: str, names: Sequence[str], connections: int, scratch: Path) -> Ran:
    """Gets objects with curl, and pipes each into sha256sum."""
    (scratch / "names").write_text("".join(f"{name}\n" for name in names))
    one = f"curl --silent --show-error --fail {shlex.join(SIGNED)} {endpoint}/bucket/$0 | sha256sum > /dev/null"
    return measure("xargs", "-a", scratch / "names", "-n", 1, "-P", connections, "sh", "-c", one)


def compare(
    options: argparse.Namespace, home: Path, server: tuple[str, subprocess.Popen[bytes]], audit: Audit, names: Sequence[str], size: int
) -> tuple[str, ...]:
    """Reads all objects with each client in turn. Returns what was read, rates, and CPU times."""
    endpoint, process = server
    clients: dict[str, Callable[[], Ran]] = {"curl": lambda: curl(endpoint, names, options.connections, home)}
    is_large = size >= MIB
    if is_large:
        clients["sha256sum"] = lambda: curl_and_hash(endpoint, names, options.connections, home)
    clients["audit"] = lambda: audit.do("--json", "run")
    # Of each run: seconds, CPU seconds of the client, CPU seconds of the server.
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for _ in range(options.rounds):
        for client, run in clients.items():
            audit.again()
            before = cpu_s(process)
            ran = run()
            found[client].append((ran.seconds, ran.cpu_s, cpu_s(process) - before))
            if client == "audit":
                checked(ran, len(names))

    def seconds(client: str, part: int = 0) -> float:
        return median([ran[part] for ran in found[client]])

    def rate(client: str) -> str:
        if client not in found:
            return ""
        return f"{len(names) * size / seconds(client) / 1e6:,.0f} MB/s" if is_large else f"{len(names) / seconds(client):,.0f}/s"

    what = f"{len(names):,} of {size / 1e6:,.0f} MB" if is_large else f"{len(names):,} of {size / 1e3:,.0f} KB"
    rates = [rate("curl"), rate("sha256sum"), f"**{rate('audit')}**", f"{seconds('curl') / seconds('audit'):.0%}"]
    return (what, *rates, *(f"{seconds(client, 1):.1f} + {seconds(client, 2):.1f}" for client in ("curl", "audit")))


def s3(options: argparse.Namespace, scratch: Path) -> None:
    kinds = [kind for kind in ("rclone", "versitygw") if getattr(options, kind)]
    if not kinds or not shutil.which("curl"):
        return note("s3: left out; it needs curl, and rclone or versitygw")
    home = scratch / "s3"
    bucket = home / "root/bucket"
    os.environ["AUDIT_PEERS_SECRET"] = SECRET
    sets = {"large": (options.objects, options.object_mib * MIB), "small": (options.small_objects, 15_000)}
    names: dict[str, list[str]] = {}
    inventories: dict[str, str] = {}
    for name, (count, size) in sets.items():
        inventories[name] = write_large(bucket / name, count, size).replace("file-", f"{name}/file-")
        names[name] = [line.split(",")[0] for line in inventories[name].splitlines()[1:]]
    rows = []
    for limited in [False, True] if options.link_mbit else [False]:
        network = f"{options.link_mbit:,} Mbit/s" if limited else "loopback"
        if limited and os.geteuid() != 0:
            note("s3: the limited link is left out; it needs root")
            continue
        with link(options.link_mbit) if limited else contextlib.nullcontext():
            for kind in kinds:
                with server(options, kind, home / "root", limited) as (endpoint, process):
                    for name, (_, size) in sets.items():
                        # The page cache has them: this part is about network and server.
                        progress(f"s3: {name} objects of {kind}{', limited link' if limited else ''}")
                        audit = Audit(options, home / f"audit-{kind}-{name}-{limited}")
                        (audit.folder / "list.csv").write_text(inventories[name])
                        place = [f"endpoint={endpoint}", "region=us-east-1", f"access_key_id={ACCESS}", "secret_access_key=env:AUDIT_PEERS_SECRET"]
                        audit.node("bucket", "s3://bucket", "--workers", options.connections, options=place)
                        audit.do("inventory", "csv", "list.csv")
                        audit.save()
                        rows.append((network, kind, *compare(options, home, (endpoint, process), audit, names[name], size)))
    rates = ["curl", "curl, sha256sum", "audit", "audit/curl"]
    columns = ["network", "server", "objects", *rates, "CPU s of curl + server", "CPU s of audit + server"]
    table(f"S3: {options.connections} connections, medians of {options.rounds}", columns, rows)
    shutil.rmtree(home)


# Small files at four nodes.

NODES = 4
FOLDER_FILES = 1_000


def small_content(node: int, number: int, size: int) -> bytes:
    """Differs for each file, and is the same at all nodes."""
    return (number.to_bytes(8, "big") * (size // 8 + 1))[:size]


def write_bag(job: tuple[Path, int, int, int]) -> None:
    """Writes a node's files as a bag."""
    bag, node, files, size = job
    lines = []
    for number in range(files):
        if number % FOLDER_FILES == 0:
            folder = bag / f"data/{number // FOLDER_FILES:04}"
            folder.mkdir(parents=True)
        content = small_content(node, number, size)
        name = f"{number // FOLDER_FILES:04}/file-{number % FOLDER_FILES:03}.xml"
        (bag / "data" / name).write_bytes(content)
        lines.append(f"{hashlib.sha256(content).hexdigest()}  data/{name}\n")
    (bag / "bagit.txt").write_text("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    (bag / "manifest-sha256.txt").write_text("".join(lines))


def write_ocfl(root: Path, bag: Path, size: int) -> int:
    """Makes OCFL objects of a bag's files, by links: an object for each folder. Returns the files."""
    root.mkdir()
    (root / "0=ocfl_1.0").write_text("ocfl_1.0\n")
    count = 0
    for folder in sorted((bag / "data").iterdir()):
        made = root / f"object-{folder.name}"
        content = made / "v1/content"
        content.mkdir(parents=True)
        (made / "0=ocfl_object_1.0").write_text("ocfl_object_1.0\n")
        manifest: dict[str, list[str]] = defaultdict(list)
        for file in sorted(folder.iterdir()):
            os.link(file, content / file.name)
            manifest[hashlib.sha512(file.read_bytes()).hexdigest()].append(file.name)
            count += 1
        inventory = json.dumps(
            {
                "id": f"info:fulgurite/{folder.name}",
                "type": "https://ocfl.io/1.0/spec/#inventory",
                "digestAlgorithm": "sha512",
                "head": "v1",
                "manifest": {digest: [f"v1/content/{name}" for name in names] for digest, names in manifest.items()},
                "versions": {
                    "v1": {
                        "created": "2026-01-01T00:00:00Z",
                        "state": manifest,
                        "message": "",
                        "user": {"name": "bench", "address": "mailto:bench@example.org"},
                    }
                },
            }
        ).encode()
        for place in (made, made / "v1"):
            (place / "inventory.json").write_bytes(inventory)
            (place / "inventory.json.sha512").write_text(f"{hashlib.sha512(inventory).hexdigest()} inventory.json\n")
    return count


def install_peers() -> bool:
    if (VENV / "bin/ocfl-validate.py").exists() and (VENV / "bin/bagit.py").exists():
        return True
    for command in ([sys.executable, "-m", "venv", str(VENV)], [str(VENV / "bin/pip"), "install", "--quiet", *PEERS]):
        if subprocess.run(command, check=False).returncode != 0:
            return False
    return True


def together(commands: Sequence[Sequence[object]]) -> Ran:
    """Runs commands at the same time."""
    begun = time.monotonic()
    with ThreadPoolExecutor(len(commands)) as pool:
        ran = list(pool.map(lambda command: measure(*command), commands))
    seconds = time.monotonic() - begun
    return Ran(seconds, sum(one.cpu_s for one in ran), sum(one.peak_mib for one in ran), 0.0, "")


def write_small(options: argparse.Namespace, home: Path) -> list[Path]:
    """Writes the bags of all nodes, unless they are there."""
    bags = [home / f"node-{number}" for number in range(NODES)]
    if not home.exists():
        progress(f"writing {options.small_files:,} small files at each of {NODES} nodes")
        jobs = [(bag, number, options.small_files, options.small_bytes) for number, bag in enumerate(bags)]
        with multiprocessing.Pool(os.cpu_count()) as pool:
            pool.map(write_bag, jobs, chunksize=1)
        os.sync()
    return bags


def small_audit(options: argparse.Namespace, folder: Path, bags: Sequence[Path], workers: int) -> Audit:
    audit = Audit(options, folder)
    for number, bag in enumerate(bags):
        audit.node(f"node-{number}", bag / "data", "--workers", workers)
    lines = (bags[0] / "manifest-sha256.txt").read_text().splitlines()
    rows = (f"{line[71:]},{options.small_bytes},{line[:64]}\n" for line in lines)
    (folder / "list.csv").write_text("path,bytes,sha256\n" + "".join(rows))
    audit.do("inventory", "csv", "list.csv")
    audit.save()
    return audit


def small(options: argparse.Namespace, scratch: Path) -> None:
    home = scratch / "small"
    bags = write_small(options, home)
    copies = NODES * options.small_files
    audit = small_audit(options, scratch / "small-audit", bags, options.small_workers)
    sums = scratch / "small-audit/SHA256SUMS"
    sums.write_text((bags[0] / "manifest-sha256.txt").read_text().replace("  data/", "  "))
    contenders: dict[str, tuple[int, Callable[[], Ran]]] = {}

    def ours() -> Ran:
        ran = audit.do("--json", "run")
        checked(ran, copies)
        return ran

    contenders["**`fulgurite audit run`**, all nodes"] = (copies, ours)
    at_once = NODES * options.small_workers
    plain = f"find {' '.join(shlex.quote(str(bag / 'data')) for bag in bags)} -type f -print0 | xargs -0 -n 500 -P {at_once} cat > /dev/null"
    contenders[f"bound: `cat` in {at_once} processes"] = (copies, lambda: measure("sh", "-c", plain))
    if options.rclone:
        check = [options.rclone, "check", "-C", "sha256", "--checkers", options.small_workers, sums]
        contenders["`rclone check --checkfile sha256`, all nodes at once"] = (copies, lambda: together([[*check, bag / "data"] for bag in bags]))
    if install_peers():
        python, tools = VENV / "bin/python", VENV / "bin"
        # A node each for the slow ones, or a round would take a quarter of an hour.
        some = bags if options.small_all else bags[:1]
        which = "all nodes, one after another" if options.small_all else "one node"
        contenders[f"`bagit.py --validate --processes 2`, {which}"] = (
            len(some) * options.small_files,
            lambda: measure(python, tools / "bagit.py", "--quiet", "--validate", "--processes", 2, *some),
        )
        root = scratch / "small-audit/ocfl"
        inside = write_ocfl(root, bags[0], options.small_bytes)
        contenders["`ocfl-validate.py` (SHA-512), one node"] = (inside, lambda: measure(python, tools / "ocfl-validate.py", "-Q", root))
    rates: dict[str, list[float]] = defaultdict(list)
    ran: dict[str, list[Ran]] = defaultdict(list)
    for number in range(options.small_rounds):
        for name, (files, run) in contenders.items():
            progress(f"small: round {number + 1}, {name}")
            audit.again()
            drop_caches(home)
            ran[name].append(run())
            rates[name].append(files / ran[name][-1].seconds)
    first = median(rates[next(iter(rates))])
    rows = [
        (
            name,
            f"{contenders[name][0]:,}",
            f"{median(rates[name]):,.0f}",
            spread(rates[name]),
            f"{median([one.cpu_s for one in ran[name]]) / contenders[name][0] * 1e6:,.0f}",
            f"{median([one.peak_mib for one in ran[name]]):,.0f}",
            f"{first / median(rates[name]):.1f}",
        )
        for name in contenders
    ]
    title = f"Small files: {options.small_files:,} of {options.small_bytes:,} bytes at each of {NODES} nodes, medians of {options.small_rounds}"
    table(title, ["", "files", "files/s", "all rounds", "CPU µs a file", "peak MiB", "audit is faster"], rows)
    shutil.rmtree(scratch / "small-audit")


# Isolation.


@dataclass
class Manner:
    """How a server answers."""

    delay_s: float = 0.02
    stall: bool = False
    # Every so many requests, one is answered with 500.
    fail_every: int | None = None


class Answers(asyncio.Protocol):
    """Answers each GET with the same content, in its manner, by HTTP/1.1 with lasting connections."""

    def __init__(self, manner: Manner, answer: bytes) -> None:
        self.manner, self.answer = manner, answer
        self.transport: asyncio.Transport | None = None
        self.waiting = b""

    requests = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.waiting += data
        while b"\r\n\r\n" in self.waiting:
            _, self.waiting = self.waiting.split(b"\r\n\r\n", 1)
            if self.manner.stall:
                continue
            Answers.requests += 1
            fails = self.manner.fail_every is not None and Answers.requests % self.manner.fail_every == 0
            answer = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n" if fails else self.answer
            asyncio.get_running_loop().call_later(self.manner.delay_s, self.send, answer)

    def send(self, answer: bytes) -> None:
        if self.transport and not self.transport.is_closing():
            self.transport.write(answer)


def serve(manner: Manner, content: bytes, port: int) -> None:
    async def forever() -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        listening = await asyncio.get_running_loop().create_server(lambda: Answers(manner, head + content), "127.0.0.1", port)
        await listening.serve_forever()

    asyncio.run(forever())


@contextlib.contextmanager
def serving(manner: Manner, content: bytes) -> Iterator[int]:
    port = free_port()
    process = multiprocessing.Process(target=serve, args=(manner, content, port), daemon=True)
    process.start()
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.join()


BAD = {"stalled": Manner(stall=True), "slow": Manner(delay_s=0.2), "failing": Manner(fail_every=2)}


def isolation(options: argparse.Namespace, scratch: Path) -> None:
    """Two kinds of good nodes: limited by latency and by a rate, and as fast as the machine."""
    home = scratch / "isolation"
    content = small_content(0, 1, options.small_bytes)
    digest = hashlib.sha256(content).hexdigest()
    seconds, count = options.isolation_seconds, options.isolation_files
    folders = [home / f"folder-{number}" for number in range(2)]
    # Names of many files, all links to folders of a thousand.
    for folder in folders:
        pool = folder / "pool"
        pool.mkdir(parents=True)
        for number in range(FOLDER_FILES):
            (pool / f"{number:03}").write_bytes(content)
        for number in range(count // FOLDER_FILES):
            (folder / f"{number:05}").symlink_to("pool")
    inventory = "path,bytes,sha256\n" + "".join(f"{number // FOLDER_FILES:05}/{number % FOLDER_FILES:03},{len(content)},{digest}\n" for number in range(count))
    rows = []
    with contextlib.ExitStack() as stack:
        ports = {name: stack.enter_context(serving(manner, content)) for name, manner in (BAD | {"good": Manner()}).items()}

        def web(name: str) -> tuple[str, str, list[object]]:
            # A run ends after the last answer, or its deadline.
            return name, f"http://127.0.0.1:{ports[name]}/", ["--workers", 8, "--option", "first_byte_timeout=10"]

        kinds: dict[str, list[tuple[str, object, list[object]]]] = {
            "limited": [web("good"), ("paced", folders[0], ["--workers", 4, "--files-per-second", 1_000])],
            "unlimited": [("folder-0", folders[0], ["--workers", 4]), ("folder-1", folders[1], ["--workers", 4])],
        }
        for kind, good in kinds.items():
            audit = Audit(options, home / f"audit-{kind}")
            for name, place, settings in [*good, *map(web, BAD)]:
                audit.node(name, place, *settings)
            (audit.folder / "list.csv").write_text(inventory)
            audit.do("inventory", "csv", "list.csv")
            audit.save()
            names = [name for name, _, _ in good]
            alone: dict[str, list[float]] = defaultdict(list)
            beside: dict[str, list[float]] = defaultdict(list)
            cpu: dict[str, list[float]] = defaultdict(list)
            for number in range(options.rounds):
                for what, chosen, rates in (("alone", names, alone), ("beside", [*names, *BAD], beside)):
                    progress(f"isolation: {kind}, round {number + 1}, {what}")
                    audit.again()
                    only = [word for name in chosen for word in ("--node", name)]
                    ran = audit.do("--json", "run", "--for", f"{seconds}s", *only, ok=(0, 3, 4))
                    cpu[what].append(ran.cpu_s / seconds)
                    for name, verified in checked(ran).items():
                        assert verified < count, f"{name} had nothing left to do; raise --isolation-files"
                        rates[name].append(verified / seconds)
            for name in names:
                ours, theirs = median(alone[name]), median(beside[name])
                rows.append((kind, name, f"{ours:,.0f}", f"{theirs:,.0f}", f"**{theirs / ours:.1%}**", spread(beside[name])))
            for name in BAD:
                rows.append((kind, f"({name})", "", f"{median(beside[name]):,.1f}", "", spread(beside[name])))
            note(f"Good nodes {kind}: cores used by the audit alone {median(cpu['alone']):.2f}, with the others {median(cpu['beside']):.2f}.")
    columns = ["good nodes", "node", "checks/s alone", "beside the bad ones", "of alone", "all rounds"]
    table(f"Isolation: {seconds} s a run, medians of {options.rounds}", columns, rows)
    shutil.rmtree(home)


# A big inventory.


def big_name(number: int) -> str:
    return f"ark/99999/fk4{number // FOLDER_FILES:09}/1/producer/page-{number % FOLDER_FILES:04}.tiff"


def big(options: argparse.Namespace, scratch: Path) -> None:
    home = scratch / "big"
    files, nodes = options.big_files, 3
    contents = [small_content(0, number, options.small_bytes) for number in range(FOLDER_FILES)]
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    folders = [home / f"node-{number}" for number in range(nodes)]
    progress(f"big: folders for {files:,} names")
    # As many names as wanted, by links to one folder of a thousand files.
    for folder in folders:
        pool = folder / "pool/1/producer"
        pool.mkdir(parents=True)
        for number, content in enumerate(contents):
            (pool / f"page-{number:04}.tiff").write_bytes(content)
        (folder / "ark/99999").mkdir(parents=True)
        for number in range(0, files, FOLDER_FILES):
            (folder / f"ark/99999/fk4{number // FOLDER_FILES:09}").symlink_to("../../pool")
    # A thousand copies are missing.
    (folders[-1] / f"ark/99999/fk4{min(50, files // FOLDER_FILES - 1):09}").unlink()

    def lines() -> Iterator[bytes]:
        yield b"path,bytes,sha256\n"
        for first in range(0, files, FOLDER_FILES):
            folder = big_name(first)[:-9]
            yield "".join(f"{folder}{number:04}.tiff,{options.small_bytes},{digest}\n" for number, digest in enumerate(digests)).encode()

    audit = Audit(options, home / "audit")
    for number, folder in enumerate(folders):
        audit.node(f"node-{number}", folder, "--workers", 4)
    rows: list[tuple[object, ...]] = []

    def command(what: str, *words: object, feed: Callable[[], Iterator[bytes]] | None = None, about: Callable[[Ran], str] = lambda _: "") -> Ran:
        progress(f"big: {what}")
        ran = audit.do(*words, ok=(0, 1, 3, 4), feed=feed)
        rows.append((what, f"{ran.seconds:,.2f}", f"{ran.cpu_s:,.2f}", f"{ran.peak_mib:,.0f}", about(ran)))
        return ran

    command(
        "`inventory csv`",
        "inventory",
        "csv",
        "-",
        feed=lines,
        about=lambda ran: f"{files / ran.seconds:,.0f} rows/s, {nodes * files / ran.seconds:,.0f} copies/s",
    )
    on_disk = audit.bytes_on_disk()
    seconds = options.big_seconds

    def checks_and_bytes(ran: Ran) -> str:
        checks = sum(checked(ran).values())
        return f"{checks / seconds:,.0f} checks/s, {ran.written_mib * MIB / checks:,.0f} bytes written a check"

    for what in ("`run`", "`run` again"):
        command(
            f"{what} for {seconds} s",
            "--json",
            "run",
            "--for",
            f"{seconds}s",
            about=checks_and_bytes,
        )
    command("`status`", "status")
    command("`report`", "report")
    command("`report --html`", "report", "--html", home / "report.html")
    command("`problems`", "problems")
    command("`history`", "history", big_name(files // 2))
    command("`export`", "export", about=lambda ran: f"{ran.output.splitlines()[-1].split(',')[0]} events")
    command("`inventory csv` again", "inventory", "csv", "-", feed=lines, about=lambda ran: f"{files / ran.seconds:,.0f} rows/s")
    table(f"A big inventory: {files:,} files at {nodes} nodes", ["command", "s", "CPU s", "peak MiB", ""], rows)
    note(f"The database has {on_disk:,} bytes after the import: {on_disk / files / nodes:.1f} a copy, {on_disk / files:.1f} a file.")
    shutil.rmtree(home)


def database(options: argparse.Namespace, scratch: Path) -> None:
    home = scratch / "database"
    home.mkdir()
    for files in options.database_files:
        progress(f"database: {files:,} files")
        ran = measure(options.rates, home / f"{files}.db", files, 1, 3, options.database_checks)
        note(f"`database_rates {files} files, 3 nodes`: peak memory {ran.peak_mib:,.0f} MiB\n\n```text\n{ran.output.strip()}\n```")
        for file in home.iterdir():
            file.unlink()
    shutil.rmtree(home)


PARTS: dict[str, Callable[[argparse.Namespace, Path], None]] = {
    "local": local,
    "s3": s3,
    "small": small,
    "isolation": isolation,
    "big": big,
    "database": database,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    program = REPOSITORY / "target/release"
    parser.add_argument("--scratch", type=Path, required=True, help="a folder for files, on the disk to be measured")
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts, with commas between them (all)")
    parser.add_argument("--fulgurite", type=Path, default=program / "fulgurite")
    parser.add_argument("--rates", type=Path, default=program / "examples/database_rates")
    parser.add_argument("--rclone", type=Path, default=shutil.which("rclone"))
    parser.add_argument("--versitygw", type=Path, default=shutil.which("versitygw"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=4, help="of the part local (%(default)s)")
    parser.add_argument("--large-files", type=int, default=16)
    parser.add_argument("--large-mib", type=int, default=256)
    parser.add_argument("--connections", type=int, default=8, help="of the part s3 (%(default)s)")
    parser.add_argument("--objects", type=int, default=64)
    parser.add_argument("--object-mib", type=int, default=32)
    parser.add_argument("--small-objects", type=int, default=20_000)
    parser.add_argument("--link-mbit", type=int, default=1_000, help="rate of the limited link; 0 for none (%(default)s)")
    parser.add_argument("--small-files", type=int, default=250_000, help="at each of the four nodes (%(default)s)")
    parser.add_argument("--small-bytes", type=int, default=4_096)
    parser.add_argument("--small-workers", type=int, default=4, help="workers and checkers of a node (%(default)s)")
    parser.add_argument("--small-rounds", type=int, default=1)
    parser.add_argument("--small-all", action="store_true", help="bagit.py validates all nodes, not only one")
    parser.add_argument("--isolation-seconds", type=int, default=20)
    parser.add_argument("--isolation-files", type=int, default=1_000_000)
    parser.add_argument("--big-files", type=int, default=10_000_000)
    parser.add_argument("--big-seconds", type=int, default=60)
    parser.add_argument("--database-files", type=lambda text: [int(part) for part in text.split(",")], default=[1_000_000, 10_000_000])
    parser.add_argument("--database-checks", type=int, default=3_000_000)
    parser.add_argument("--keep", action="store_true", help="keep the small files for the next run")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    for name in ("fulgurite", "rates", "rclone", "versitygw"):
        if given := getattr(options, name):
            setattr(options, name, Path(given).absolute())
    scratch = options.scratch.absolute() / "audit-peers"
    if scratch.exists() and not options.keep:
        parser.error(f"{scratch} is left of an earlier run; remove it")
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        for part in parts:
            PARTS[part](options, scratch)
    finally:
        for child in scratch.iterdir():
            if not (options.keep and child.name == "small"):
                shutil.rmtree(child, ignore_errors=True)
        if not options.keep:
            scratch.rmdir()


if __name__ == "__main__":
    main()
