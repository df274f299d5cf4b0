"""The program under test, and archives for it.

    FULGURITE_BIN (default target/debug/fulgurite)   the program; `cargo build -p fulgurite`
    ROCFL                                            the program `rocfl`, if it isn't on the path

Tests with rocfl are left out where it isn't installed: it comes neither from pip nor with the project's own tools.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("FULGURITE_BIN") or REPOSITORY / "target/debug/fulgurite")
# Longer than any command takes here; one that needs more hangs.
COMMAND_S = 120
ROCFL = os.environ.get("ROCFL") or shutil.which("rocfl")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not ROCFL:
        without = [item for item in items if "rocfl" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in without]


@pytest.fixture(scope="session")
def rocfl() -> str:
    return ROCFL


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def answer(self) -> dict:
        return json.loads(self.out)

    def messages(self, kind: str) -> list[dict]:
        """The lines of this kind on standard error."""
        lines = [json.loads(line) for line in self.err.splitlines()]
        return [line for line in lines if line.get("kind") == kind]


@dataclass(frozen=True)
class Archive:
    folder: Path

    def run(self, *arguments: object, status: int = 0) -> Ran:
        """Runs a command, which has to exit with `status`."""
        command = [PROGRAM, "-A", self.folder, "--json", *map(os.fspath, map(as_argument, arguments))]
        ran = subprocess.run(command, capture_output=True, cwd=self.folder.parent, check=False, timeout=COMMAND_S)
        said = Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
        assert said.status == status, f"{arguments}: {said}"
        return said

    def names(self) -> set[str]:
        return {json.loads(line)["name"] for line in self.run("ls").out.splitlines()}

    def get(self, name: str) -> bytes:
        ran = subprocess.run([PROGRAM, "-A", self.folder, "get", name, "-"], capture_output=True, check=True)
        return ran.stdout


def as_argument(argument: object) -> str | bytes | Path:
    return argument if isinstance(argument, str | bytes | Path) else str(argument)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    if not PROGRAM.is_file():
        pytest.exit(f"{PROGRAM} is not there: cargo build -p fulgurite, or set FULGURITE_BIN", returncode=2)
    folder = tmp_path / "archive"
    stores = [part for number in range(3) for part in ("--store", str(tmp_path / f"store{number}"))]
    subprocess.run([PROGRAM, "init", folder, "--set", "2+1", "--platter-mib", "8", *stores], check=True, capture_output=True)
    return Archive(folder)
