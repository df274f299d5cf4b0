"""Backblaze B2, as a stand-in made for these tests speaks it."""

from __future__ import annotations

import random
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import PATIENCE_S, Place, serve_b2
from test_audits import FEW, FILES, Audit
from test_places import ODD_NAMES


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_kept(b2: Place, name: str) -> None:
    content = name.encode() * 3
    b2.do("write", name, content=content)
    assert b2.do("read", name) == content
    assert b2.do("length", name) == f"{len(content)}\n".encode()
    assert b2.listed()[name] == len(content)
    b2.do("remove", name)
    assert name not in b2.listed()
    assert b2.cause("read", name) == "missing"
    assert b2.cause("length", name) == "missing"


@pytest.mark.parametrize("length", [0, 1, 8 << 20, (8 << 20) + 1, 20_000_003])
def test_every_length_survives(b2: Place, length: int) -> None:
    content = random.Random(length).randbytes(length)
    b2.do("write", "length", content=content)
    assert b2.do("read", "length") == content
    assert b2.do("stated", "length").split()[0] == str(length).encode()
    assert b2.listed()["length"] == length
    b2.do("remove", "length")


def test_a_large_file_whose_name_opendal_would_change_is_refused(b2: Place) -> None:
    assert b2.cause("write", "large file", content=bytes((8 << 20) + 1)) == "unsupported"
    assert not [name for name in b2.listed() if name.startswith("large")]


def test_a_file_is_not_taken_for_one_whose_name_begins_alike(b2: Place) -> None:
    b2.do("write", "alike, but longer", content=b"content")
    b2.do("write", "alike and empty", content=b"")
    for command in ("length", "stated", "read"):
        assert b2.cause(command, "alike") == "missing"
        assert b2.cause(command, "alike ") == "unsupported"
    assert b2.do("length", "alike and empty") == b"0\n"


def test_nothing_is_missing_without_its_bucket(b2: Place) -> None:
    b2.do("write", "there", content=b"x")
    other_name = replace(b2, url=b2.url.replace("bucket", "no-such-bucket"))
    other_id = replace(b2, options=[option.replace("b0b0", "other") for option in b2.options])
    for command in ("length", "read"):
        assert b2.cause(command, "nothing") == "missing"
        assert other_name.cause(command, "there") == "fault"
        assert other_id.cause(command, "nothing") != "missing"


def test_wrong_credentials_are_denied_and_never_shown(b2: Place) -> None:
    wrong = replace(b2, environment={"B2_KEY": "guessed word"})
    for command in ("length", "read", "list"):
        said = wrong.run(command, *([] if command == "list" else ["there"]))
        assert said.stderr.startswith(b"denied: ") and b"401" in said.stderr, said
        # The key as it is sent, too: the stand-in repeats it.
        assert b"guessed word" not in said.stderr and b"Z3Vlc3NlZCB3b3Jk" not in said.stderr and b"a2V5Omd1ZXNz" not in said.stderr, said


def test_a_signed_url_can_be_fetched_by_anyone(b2: Place) -> None:
    b2.do("write", "signed one", content=b"content")
    url = b2.do("url", "signed one").decode().strip()
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        assert answer.read() == b"content"


def test_tokens_that_end_make_copies_unavailable_and_nothing_else(start: Callable[..., object], tmp_path: Path, b2: Place, reference: Place) -> None:
    short = serve_b2(start, tmp_path / "short", token_life_s=1)
    audit = Audit(tmp_path, {"far": short, "near": reference}, FEW)
    audit.good("run")
    # Longer than a token lasts, on one connection.
    audit.good("node", "set", "far", "--workers", "1", "--files-per-second", "1")
    assert audit.run("run", "--all").returncode in (0, 4)
    states = audit.states()["far"]
    assert set(states) <= {"verified", "unavailable"} and states.get("unavailable", 0) > 0, states
    assert "expired_auth_token" in audit.run("problems").stdout
    audit.good("node", "set", "far", "--files-per-second", "100")
    audit.good("run", "--all")
    assert audit.states()["far"] == {"verified": len(FEW)}


def test_other_lengths_and_missing_files_are_found_and_repaired(b2: Place, reference: Place, tmp_path: Path) -> None:
    audit = Audit(tmp_path, {"far": b2, "near": reference}, FILES)
    audit.good("run")
    shorter, gone = "folder 2/file 8", "folder 0/file 9"
    b2.do("write", shorter, content=FILES[shorter][:-1])
    b2.do("remove", gone)
    said = audit.run("run", "--all")
    assert said.returncode == 1, said
    assert audit.states()["far"] == {"verified": len(FILES) - 2, "size-mismatch": 1, "missing": 1}
    audit.good("repair", "--apply")
    assert b2.do("read", shorter) == FILES[shorter] and b2.do("read", gone) == FILES[gone]
    audit.good("run", "--all")
