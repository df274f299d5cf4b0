"""`fulgurite audit` over real servers: damage, slow and unreliable networks, and the benchmark matrix."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import PATIENCE_S, Place, absent
from proxy import Behaviour, Proxy
from test_fulgurite import SERVER as FULGURITE

FILES = {f"folder {number % 3}/file {number}": random.Random(number).randbytes(1_000 + 37 * number) for number in range(12)}
# So few that a node isn't left alone after its failures, and larger than what a bad network passes.
FEW = {f"file {number}": random.Random(number).randbytes(number) for number in (1, 2_000, 30_000, 70_000)}
LARGE = random.Random(99).randbytes(6_000_000)
# Fixtures of places at real servers. Swift itself notices flipped bits: test_swift.py.
KINDS = ["sftp", "webdav", "s3", "azure", "gcs", "b2"]
# Short, so that a server that never answers is given up soon.
DEADLINES = ["connect_timeout=2", "first_byte_timeout=2", "stall_timeout=2"]


@pytest.fixture
def proxies() -> Iterator[Callable[[Place], tuple[Proxy, Place]]]:
    running: list[Proxy] = []

    def before(place: Place) -> tuple[Proxy, Place]:
        """A proxy before a place's server, and the place by way of it."""
        found = re.search(r"127\.0\.0\.1:(\d+)", " ".join([place.url, *place.options]))
        assert found is not None
        proxy = Proxy(int(found[1]))
        running.append(proxy)
        old, new = found[0], f"127.0.0.1:{proxy.port}"
        options = [option.replace(old, new) for option in place.options]
        for index, option in enumerate(options):
            if option.startswith("known_hosts="):
                known = Path(option.split("=", 1)[1])
                own = known.with_name(f"known_hosts.{proxy.port}")
                own.write_text(known.read_text().replace(f"[127.0.0.1]:{found[1]}", f"[127.0.0.1]:{proxy.port}"))
                options[index] = f"known_hosts={own}"
        return proxy, replace(place, url=place.url.replace(old, new), options=options)

    yield before
    for proxy in running:
        proxy.close()


class Audit:
    """An audit of the same files at several nodes, in a folder of its own."""

    def __init__(self, folder: Path, nodes: dict[str, Place], files: dict[str, bytes]) -> None:
        if not FULGURITE.is_file():
            absent(str(FULGURITE))
        self.folder = folder
        self.environment = os.environ.copy()
        lines = ["path,bytes,sha256"]
        lines += [f"{name},{len(content)},{hashlib.sha256(content).hexdigest()}" for name, content in files.items()]
        (folder / "list.csv").write_text("\n".join(lines) + "\n")
        self.good("init")
        for name, place in nodes.items():
            for file, content in files.items():
                # By way of the server, which may remember what its folders contain.
                place.do("write", file, content=content)
            self.environment |= place.environment
            options = [word for option in place.options for word in ("--option", option)]
            self.good("node", "add", name, place.url, *options)
        self.good("inventory", "csv", "list.csv")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(FULGURITE), "audit", *words]
        # Some places keep what they listed for a while, and deadlines have to pass.
        return subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False)

    def good(self, *words: str) -> str:
        said = self.run(*words)
        # In full: pytest shortens what it shows of values.
        assert said.returncode == 0, f"{words}: {said.returncode}\n{said.stdout}{said.stderr}{self.run('problems').stdout}"
        return said.stdout

    def states(self) -> dict[str, dict[str, int]]:
        """Copies by node and state."""
        said = self.run("status", "--json").stdout.splitlines()
        lines = [line for line in map(json.loads, said) if "states" in line]
        return {line["node"]: {state: sums["copies"] for state, sums in line["states"].items()} for line in lines}

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.good("export", "--json").splitlines()]


def flip(folder: Path, content: bytes) -> None:
    """Flips a bit of a copy, in whatever file a server keeps it."""
    for path in folder.rglob("*"):
        if path.is_file() and (at := path.read_bytes().find(content)) >= 0:
            with path.open("r+b") as file:
                file.seek(at + len(content) // 2)
                file.write(bytes([content[len(content) // 2] ^ 1]))
            return
    pytest.fail(f"no file in {folder} has this content")


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_found_and_repaired(kind: str, reference: Place, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place: Place = request.getfixturevalue(kind)
    audit = Audit(tmp_path, {"far": place, "near": reference}, FILES)
    audit.good("run")
    assert audit.states() == {"far": {"verified": len(FILES)}, "near": {"verified": len(FILES)}}
    name = "folder 1/file 7"
    flip(place.folder, FILES[name])
    said = audit.run("run", "--all")
    assert said.returncode == 1 and f"far: {name}: digest-mismatch" in said.stdout, said
    assert audit.states()["far"] == {"verified": len(FILES) - 1, "digest-mismatch": 1}
    assert audit.states()["near"] == {"verified": len(FILES)}
    audit.good("repair", "--apply")
    assert place.do("read", name) == FILES[name]
    audit.good("run", "--all")


@pytest.mark.parametrize(
    "behaviour",
    [Behaviour(close_after=900), Behaviour(reset_after=900), Behaviour(close_after=0), Behaviour(reset_after=20_000)],
    ids=["closed within answers", "reset within answers", "closed at once", "reset later"],
)
@pytest.mark.parametrize("kind", [*KINDS, "swift"])
def test_a_bad_network_corrupts_nothing(
    kind: str,
    reference: Place,
    tmp_path: Path,
    proxies: Callable[[Place], tuple[Proxy, Place]],
    behaviour: Behaviour,
    request: pytest.FixtureRequest,
) -> None:
    place: Place = request.getfixturevalue(kind)
    proxy, far = proxies(replace(place, options=[*place.options, *DEADLINES]))
    audit = Audit(tmp_path, {"far": far, "near": reference}, FEW)
    proxy.behaviour = behaviour
    audit.run("run")
    states = audit.states()
    assert states["near"] == {"verified": len(FEW)}
    assert set(states["far"]) <= {"verified", "unavailable", "unverified"}, states
    proxy.behaviour = Behaviour()
    audit.good("run", "--all")
    assert audit.states()["far"] == {"verified": len(FEW)}
    assert {event["kind"] for event in audit.events()} <= {"verified", "unavailable", "verified-by-second-reading"}


def test_a_server_that_never_answers_holds_up_no_other(
    s3: Place, reference: Place, tmp_path: Path, proxies: Callable[[Place], tuple[Proxy, Place]]
) -> None:
    proxy, far = proxies(replace(s3, options=[*s3.options, *DEADLINES]))
    audit = Audit(tmp_path, {"far": far, "near": reference}, FILES)
    proxy.behaviour = Behaviour(stall=True)
    said = audit.run("run")
    assert said.returncode == 4 and "node far is left alone for" in said.stderr, said
    states = audit.states()
    assert states["near"] == {"verified": len(FILES)}
    # How many checks begin before the node is left alone depends on which of its eight workers is
    # told first. After two probes the node is given up, and the other copies are left untried.
    assert set(states["far"]) <= {"unavailable", "unverified"}, states
    assert sum(states["far"].values()) == len(FILES) and states["far"]["unavailable"] >= 8, states


def test_a_url_of_azure_reads_one_blob_and_nothing_else(azure: Place, reference: Place, tmp_path: Path) -> None:
    files = {"a b/\u00fc+%#?.txt": b"one", "other": b"two"}
    audit = Audit(tmp_path, {"cloud": azure, "near": reference}, files)
    url = audit.good("url", "cloud", "a b/\u00fc+%#?.txt").strip().splitlines()[-1]
    key = next(iter(azure.environment.values()))
    assert key not in url and "sp=r&" in url, url

    def answer(method: str, target: str, **headers: str) -> tuple[int, bytes]:
        request = urllib.request.Request(target, method=method, headers=headers, data=b"x" if method == "PUT" else None)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, b""

    assert answer("GET", url) == (200, b"one")
    blob, query = url.split("?")
    other = blob.rsplit("/", 2)[0] + "/other"
    container = other.rsplit("/", 2)[0]
    for refused in [
        answer("GET", f"{other}?{query}"),
        answer("PUT", url, **{"x-ms-blob-type": "BlockBlob"}),
        answer("DELETE", url),
        answer("GET", f"{container}?restype=container&comp=list&{query}"),
        answer("GET", url.replace("sp=r&", "sp=rw&")),
    ]:
        assert refused[0] == 403, refused

    audit.good("matrix", "add", "other")
    audit.good("matrix", "expect", "cloud", "access", "60+0")
    said = [json.loads(line) for line in audit.good("matrix", "run", "--all", "--json").splitlines()]
    assert ("cloud", "access", "PASS") in [(line["node"], line["by"], line["verdict"]) for line in said], said


def test_the_matrix_judges_times_and_its_commands_repeat_the_readings(
    s3: Place, reference: Place, tmp_path: Path, proxies: Callable[[Place], tuple[Proxy, Place]]
) -> None:
    proxy, far = proxies(s3)
    audit = Audit(tmp_path, {"far": far, "near": reference}, {"large file": LARGE})
    audit.good("matrix", "add", "large file")
    for node, probe in [("far", "access"), ("far", "audit"), ("near", "audit")]:
        audit.good("matrix", "expect", node, probe, "60+0")
    said = [json.loads(line) for line in audit.good("matrix", "run", "--json").splitlines()]
    assert sorted((line["node"], line["by"], line["verdict"]) for line in said) == [
        ("far", "access", "PASS"),
        ("far", "audit", "PASS"),
        ("near", "audit", "PASS"),
    ]

    # Anybody can repeat a reading by its command.
    digest = hashlib.sha256(LARGE).hexdigest()
    environment = audit.environment | {"PATH": f"{FULGURITE.parent}:{audit.environment['PATH']}"}
    for line in audit.good("matrix", "records", "--json").splitlines():
        record = json.loads(line)
        assert "Signature" not in line and "secret" not in line, line
        shell = subprocess.run(["bash", "-c", record["command"]], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        assert (f"{len(LARGE)} bytes" if record["by"] == "access" else digest) in shell.stdout, record["command"] + shell.stdout + shell.stderr

    # 6 MB at 2 MB/s take 3 s at least: more than three times the expected 0.5 s.
    proxy.behaviour = Behaviour(bytes_per_second=2e6)
    for probe in ("access", "audit"):
        audit.good("matrix", "expect", "far", probe, "0.5+0")
    slow = audit.run("matrix", "run", "--all", "--json")
    verdicts = {(line["node"], line["by"]): line for line in map(json.loads, slow.stdout.splitlines()) if "verdict" in line}
    assert slow.returncode == 3, slow
    assert verdicts["near", "audit"]["verdict"] == "PASS", verdicts
    for probe in ("access", "audit"):
        record = verdicts["far", probe]
        assert record["verdict"] == "FAIL" and record["measured_s"] >= 3.0, record

    # A delay counts, too.
    proxy.behaviour = Behaviour(delay_s=1.6)
    assert audit.run("matrix", "run", "--all", "--node", "far").returncode == 3
    proxy.behaviour = Behaviour(reset_after=1_000_000)
    cut = audit.run("matrix", "run", "--all", "--node", "far")
    assert cut.returncode == 4 and cut.stdout.count("UNANSWERED") == 2, cut
    proxy.behaviour = Behaviour()
    (s3.folder / "large file").write_bytes(b"x" + LARGE[1:])
    wrong = audit.run("matrix", "run", "--all", "--node", "far")
    assert wrong.returncode == 1 and wrong.stdout.count("ERROR") == 2 and "other bytes" in wrong.stdout, wrong
    # Only a check may call the copy wrong.
    assert audit.states()["far"] == {"unverified": 1}
    assert audit.run("run").returncode == 1
    assert audit.states()["far"] == {"digest-mismatch": 1}
