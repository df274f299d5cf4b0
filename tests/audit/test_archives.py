"""An archive as a node of an audit and as the destination of a migration: what its catalogue doesn't know isn't lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conftest import PATIENCE_S, REPOSITORY, absent

PROGRAM = Path(os.environ.get("FULGURITE_BIN") or REPOSITORY / "target/debug/fulgurite")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with an archive in it."""
    if not PROGRAM.is_file():
        absent(str(PROGRAM))
    good(tmp_path, "init", "--store=store", "archive")
    return tmp_path


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], cwd=home, capture_output=True, text=True, timeout=PATIENCE_S)


def good(home: Path, *arguments: str) -> str:
    ran = run(home, *arguments)
    assert ran.returncode == 0, ran
    return ran.stdout


def catalogue(home: Path) -> bytes:
    return (home / "archive/catalogue.db").read_bytes()


def test_an_audit_finds_nothing_lost_by_an_old_copy_of_the_catalogue(home: Path) -> None:
    (home / "f1").write_text("first")
    (home / "same").write_text("same")
    good(home, "-A", "archive", "put", "f1", "same", "--flush")
    old = catalogue(home)
    (home / "f1").write_text("second, and longer")
    (home / "g1").write_text("new")
    good(home, "-A", "archive", "put", "f1", "g1", "--flush")
    new = catalogue(home)
    good(home, "audit", "init")
    good(home, "audit", "node", "add", "archive", "archive:archive")
    good(home, "-A", "archive", "audit", "inventory", "archive")
    good(home, "audit", "run")
    (home / "archive/catalogue.db").write_bytes(old)
    ran = run(home, "audit", "run", "--all")
    assert ran.returncode == 4 and "f1: size-mismatch" not in ran.stdout and "g1: missing" not in ran.stdout, ran
    problems = run(home, "audit", "problems").stdout
    assert problems.count("unavailable  ") == 3 and "looks" not in problems, problems
    (home / "archive/catalogue.db").write_bytes(new)
    good(home, "audit", "run", "--all")


def test_a_scan_finds_nothing_lost_by_an_old_copy_of_the_catalogue(home: Path) -> None:
    (home / "source").mkdir()
    good(home, "migrate", "init", "m", "--from=source", "--to=archive:archive")
    for number in range(6):
        (home / f"source/f{number}").write_text(f"{number}")
        good(home, "migrate", "inventory", "m")
        good(home, "migrate", "run", "m")
        if number == 3:
            old = catalogue(home)
    new = catalogue(home)
    settings = home / "m/migration.toml"
    settings.write_text(settings.read_text() + '\n[rules]\nhold = "0 s"\n')
    good(home, "migrate", "forget", "m", "--yes")
    assert not list((home / "source").glob("f*"))
    (home / "archive/catalogue.db").write_bytes(old)
    ran = run(home, "migrate", "scan", "m")
    assert ran.returncode != 0 and "missing" not in ran.stdout and "does not exist" not in ran.stderr, ran
    (home / "archive/catalogue.db").write_bytes(new)
    assert "6 files" in good(home, "migrate", "scan", "m")
