"""A server with little memory on an archive of its own, and what it costs to attack it.

    FULGURITE_BIN (default target/debug/fulgurite)  the program, see ../s3/serving.py

Attackers and the honest client talk to the same server over loopback, from different addresses of it. What an attack may cost is asserted: memory at its
peak and some seconds after its end, time of the CPU, and that every honest request is answered well. How long these took is printed and not asserted.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serving import Serving
from wire import Account, Reply, Server, Wire

os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull

# Of the whole server. Writing platters, which no attack here causes, may take 64 of them.
MEMORY_MIB = 750
CONNECTIONS = 300
SETTINGS = f"memory_mib = {MEMORY_MIB}\nconnections = {CONNECTIONS}\nconnections_per_address = {CONNECTIONS - 50}\n"
# Of memory that an attack took, so much may still be there when it is over.
KEPT_MIB = 150
SETTLE_S = 12
TICKS = os.sysconf("SC_CLK_TCK")


class Attacked(Serving):
    """A server whose memory and CPU time are looked at."""

    def limit(self) -> None:
        """Gives it little memory. Its settings are there after the first start."""
        (self.archive / "service.toml").write_text(SETTINGS)
        limits = self.archive / "fulgurite.toml"
        lines = limits.read_text().splitlines()
        limits.write_text("\n".join("memory_mib = 64" if line.startswith("memory_mib") else line for line in lines) + "\n")

    def rss_mib(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        pytest.fail(f"the server has ended:\n{self.log.read_text()[-4000:]}", pytrace=False)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@pytest.fixture(scope="session", autouse=True)
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < 4096 or not sys.platform.startswith("linux"):
        pytest.skip("needs Linux, and 4,096 open files")


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    serving = Attacked(tmp_path_factory.mktemp("attacks"))
    try:
        serving.start()
        serving.stop()
        serving.limit()
        serving.start()
        yield serving
        serving.stop()
    finally:
        serving.kill()


@pytest.fixture(scope="session")
def honest_account(serving: Attacked) -> Account:
    return serving.add_account("honest")


@pytest.fixture(scope="session")
def wire(serving: Attacked) -> Wire:
    """For the attacker, who has an account like any other."""
    return Wire(serving.server)


@pytest.fixture(scope="session")
def honest(serving: Attacked, honest_account: Account) -> Wire:
    server = Server(serving.endpoint, serving.region, honest_account, None)
    wire = Wire(server)
    assert wire.send("PUT", "/honest").status == 200
    return wire


@pytest.fixture(scope="session")
def bucket(wire: Wire) -> str:
    assert wire.send("PUT", "/target").status == 200
    return "target"


class Honest(threading.Thread):
    """Puts 10 KiB and gets it back, each time over new connections, until it is told to stop."""

    def __init__(self, wire: Wire):
        super().__init__(daemon=True)
        self.wire, self.took, self.failed = wire, [], []
        self.over = threading.Event()

    def run(self) -> None:
        body = os.urandom(10 << 10)
        while not self.over.is_set():
            for ask in (lambda: self.wire.send("PUT", "/honest/k", body=body), lambda: self.wire.send("GET", "/honest/k")):
                begun = time.monotonic()
                try:
                    reply = ask()
                    if reply.status != 200 or (reply.body and reply.body != body):
                        self.failed.append(f"{reply.status} {reply.body[:200]!r}")
                except (AssertionError, OSError) as error:
                    self.failed.append(repr(error))
                self.took.append(time.monotonic() - begun)
            self.over.wait(0.02)


@pytest.fixture
def attack(serving: Attacked, honest: Wire):
    """`with attack(cpu_s=…) as client:` around an attack. `client` is the honest one meanwhile."""

    @contextmanager
    def attacked(cpu_s: float):
        client = Honest(honest)
        peak, over = [serving.rss_mib()], threading.Event()

        def sample() -> None:
            while not over.wait(0.05):
                try:
                    peak[0] = max(peak[0], serving.rss_mib())
                except OSError:
                    return

        sampler = threading.Thread(target=sample, daemon=True)
        cpu = serving.cpu_s()
        client.start()
        sampler.start()
        try:
            yield client
        finally:
            client.over.set()
            over.set()
        client.join(60)
        used = serving.cpu_s() - cpu
        took = sorted(client.took)
        print(
            f"\npeak {peak[0]:.0f} MiB, CPU {used:.1f} s, honest: {len(took)} requests, median {1e3 * statistics.median(took):.0f} ms, "
            f"p99 {1e3 * took[int(0.99 * (len(took) - 1))]:.0f} ms, longest {1e3 * took[-1]:.0f} ms"
        )
        assert took, "the honest client got nothing done"
        assert not client.failed, f"{len(client.failed)} of {len(took)} honest requests failed, the first with {client.failed[0]}"
        assert peak[0] <= MEMORY_MIB, f"{peak[0]:.0f} MiB at the peak, {MEMORY_MIB} are allowed"
        assert used <= cpu_s, f"{used:.1f} s of CPU, {cpu_s} are allowed"

    return attacked


def falls_back(serving: Attacked) -> None:
    """Memory that an attack took goes back to the system."""
    end = time.monotonic() + SETTLE_S
    while (rss := serving.rss_mib()) > KEPT_MIB:
        assert time.monotonic() < end, f"{rss:.0f} MiB are still there {SETTLE_S} s after the attack, {KEPT_MIB} are allowed"
        time.sleep(0.2)


def head(method: str, target: str, fields: dict[str, str]) -> bytes:
    return f"{method} {target} HTTP/1.1\r\n".encode() + "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode() + b"\r\n"


__all__ = ["Attacked", "Reply", "falls_back", "head"]
