#!/usr/bin/env python3
"""The same load on Fulgurite and on other S3 servers, one after another on one machine.

    cargo build --release && cargo bench -p fulgurite-service --bench s3 --no-run
    python3 crates/service/benches/s3_peers.py --load target/release/deps/s3-… [--rounds 3] [--clients 16] [--seconds 5] [--sizes 0,15360]

Servers that aren't on the PATH (minio, versitygw) are left out. Each round starts every server on an empty folder, so that what drifts drifts for
all, and ends with a program that has no server, and writes and syncs a file for each put. Printed are medians of the rounds, and each server's peak
memory. With --earlier PROGRAM, an earlier build of Fulgurite takes part too. With --strace, system calls that make writes durable are counted during
a second of puts of 15 KB (strace has to be there).
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

PORT = 9455
KEYS = {"access": "benchmarkkey00", "secret": "benchmarksecret0000"}


def fulgurite(folder: Path, program: str):
    command = [program, "-A", str(folder), "--json", "serve", "--listen", f"127.0.0.1:{PORT}"]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "RUST_LOG": "warn"})
    said = json.loads(serving.stdout.readline())
    return serving, said["access_key"], said["secret_key"]


def minio(folder: Path, program: str):
    env = {**os.environ, "MINIO_ROOT_USER": KEYS["access"], "MINIO_ROOT_PASSWORD": KEYS["secret"]}
    command = [program, "server", "--quiet", "--address", f"127.0.0.1:{PORT}", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env), KEYS["access"], KEYS["secret"]


def versitygw(folder: Path, program: str):
    command = [program, "--quiet", "--keep-alive", "--port", f"127.0.0.1:{PORT}", "--access", KEYS["access"], "--secret", KEYS["secret"], "posix", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), KEYS["access"], KEYS["secret"]


# A program that writes and syncs a file each, and its folder, for what a server costs beside it.
FILES = "a file each"
SERVERS = {"fulgurite": fulgurite, "earlier": fulgurite, "minio": minio, "versitygw": versitygw}


def wait(serving: subprocess.Popen):
    for _ in range(300):
        assert serving.poll() is None, "the server ended"
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=1)
            return
        except urllib.error.HTTPError as error:
            # MinIO answers before it can serve.
            if error.code != 503:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server doesn't answer")


def stop(serving: subprocess.Popen):
    serving.send_signal(signal.SIGTERM)
    try:
        serving.wait(30)
    except subprocess.TimeoutExpired:
        serving.kill()
        serving.wait()


def load(options, access: str, secret: str, sizes: str, seconds: float) -> dict[tuple[int, str], tuple[float, float, float, int]]:
    return run(options, ["--endpoint", f"http://127.0.0.1:{PORT}", "--access-key", access, "--secret-key", secret], sizes, seconds)


def run(options, what: list[str], sizes: str, seconds: float) -> dict[tuple[int, str], tuple[float, float, float, int]]:
    command = [options.load, *what]
    command += ["--clients", str(options.clients), "--seconds", str(seconds), "--sizes", sizes]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    found = {}
    for line in said.splitlines()[1:]:
        size, method, rate, p50, p99, failed = line.split()
        found[int(size), method] = (float(rate), float(p50), float(p99), int(failed))
    return found


def peak_mib(pid: int) -> float:
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def syncs(options, name: str, program: str) -> str:
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    serving, access, secret = SERVERS[name](folder, program)
    try:
        wait(serving)
        trace = folder.parent / f"{name}.strace"
        calls = "fsync,fdatasync,sync_file_range,syncfs,msync"
        tracing = subprocess.Popen(["strace", "-f", "-c", "-e", f"trace={calls}", "-o", str(trace), "-p", str(serving.pid)], stderr=subprocess.DEVNULL)
        time.sleep(1)
        put = load(options, access, secret, "15360", 1.0)[15_360, "PUT"]
        tracing.send_signal(signal.SIGINT)
        tracing.wait()
        counted = collections.Counter()
        for line in trace.read_text().splitlines():
            fields = line.split()
            if fields and fields[-1] in calls.split(","):
                counted[fields[-1]] = int(fields[3])
        return f"{', '.join(f'{count} {call}' for call, count in counted.items()) or 'none'} in about {put[0]:.0f} puts"
    finally:
        stop(serving)
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--load", required=True)
    parser.add_argument("--fulgurite", default="target/release/fulgurite")
    parser.add_argument("--earlier", help="an earlier build to compare with")
    parser.add_argument("--folder", default=".", help="where servers keep what they are given, on the disk to be measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--sizes", default="0,15360,20480,512000,15728640")
    parser.add_argument("--strace", action="store_true")
    options = parser.parse_args()
    given = {"fulgurite": options.fulgurite, "earlier": options.earlier}
    programs = {name: given[name] if name in given else shutil.which(name) for name in SERVERS}
    programs = {name: program for name, program in programs.items() if program}
    found = collections.defaultdict(list)
    memory = collections.defaultdict(list)
    for _ in range(options.rounds):
        for name, program in programs.items():
            folder = Path(tempfile.mkdtemp(dir=options.folder))
            serving, access, secret = SERVERS[name](folder, program)
            try:
                wait(serving)
                for key, figures in load(options, access, secret, options.sizes, options.seconds).items():
                    found[name, key].append(figures)
                memory[name].append(peak_mib(serving.pid))
            finally:
                stop(serving)
                shutil.rmtree(folder, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        for key, figures in run(options, ["--files", str(folder)], options.sizes, options.seconds).items():
            found[FILES, key].append(figures)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{options.clients} clients, medians of {options.rounds}: per second / p50 ms / p99 ms")
    for name in [*programs, FILES]:
        if name == FILES:
            print(f"\n{name}:")
        else:
            print(f"\n{name}: peak memory {statistics.median(memory[name]):.0f} MiB" + (f"; durable: {syncs(options, name, programs[name])}" if options.strace else ""))
        for (size, method) in [key for (other, key) in found if other == name]:
            rates, p50s, p99s, failures = zip(*found[name, (size, method)])
            failed = f"  {sum(failures)} failed" if any(failures) else ""
            print(f"{size:>10} {method} {statistics.median(rates):>9.0f} {statistics.median(p50s):>9.2f} {statistics.median(p99s):>9.2f}{failed}")


if __name__ == "__main__":
    main()
