"""Bags and PREMIS documents, with the validators of others.

bagit-python and bagit-profile judge bags that Fulgurite writes, and Fulgurite judges bags that bagit-python writes;
lxml reads the PREMIS documents.

    CARGO_EXAMPLES (default target/debug/examples)   where `cargo build -p fulgurite-bagit -p fulgurite-premis --examples`
                                                     put the programs `bag` and `premis`
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import bagit
import bagit_profile
import pytest
from lxml import etree

EXAMPLES = Path(os.environ.get("CARGO_EXAMPLES", Path(__file__).parents[2] / "target/debug/examples"))
PROFILE_URI = "https://example.org/profile.json"

# bagit-python neither writes nor reads %25, strips spaces at the end of a line, and normalizes names.
PLAIN_NAMES = ["a.txt", "a b  c", "ark:/13030/x|1|producer/f", "line\nend", "tab\tulator", "ü/日本/🙂", "CASE", "case", "*star", "a%20b"]
ODD_NAMES = PLAIN_NAMES + ["100%.txt", "100%25.txt", " spaces ", "Nu\u0301n\u0303ez", "cr\rlf\r\n", "back\\slash"]


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [EXAMPLES / program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def bag(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run("bag", *arguments)


def bagit_py(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, bagit.__file__, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def fill(folder: Path, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 1000)
    return folder


def assert_valid(path: Path) -> None:
    judged = bag("validate", "--threads", 2, path)
    assert judged.returncode == 0, judged.stderr


@pytest.mark.parametrize("version", ["1.0", "0.97"])
@pytest.mark.parametrize("algorithms", [["sha512"], ["md5", "sha256"], ["sha1", "sha384", "blake2b-512"]])
def test_bags_of_fulgurite_are_valid_for_bagit_python(tmp_path: Path, version: str, algorithms: list[str]) -> None:
    names = [name for name in PLAIN_NAMES if version == "0.97" or "%" not in name]
    source = fill(tmp_path / "source", names)
    chosen = [part for algorithm in algorithms for part in ("--algorithm", algorithm)]
    target = tmp_path / "bag"
    fields = ["--field", "Contact-Name", "a", "--field", "Contact-Name", "b", "--date", "2026-11-25"]
    written = bag("create", "--version", version, *chosen, *fields, source, target)
    assert written.returncode == 0, written.stderr
    assert_valid(target)
    judged = bagit_py("--validate", target)
    assert judged.returncode == 0, judged.stderr
    read = bagit.Bag(str(target))
    assert read.info["Contact-Name"] == ["a", "b"]
    assert set(read.payload_entries()) == {"data/" + name for name in names}
    assert read.has_oxum() and read.validate(fast=True)


@pytest.mark.parametrize("checksums", [["md5"], ["sha256", "sha512"], ["sha1", "blake2b"], ["sha224"]])
def test_bags_of_bagit_python_are_valid_for_fulgurite(tmp_path: Path, checksums: list[str]) -> None:
    fill(tmp_path / "bag", ODD_NAMES)
    info = {"Contact-Name": ["a", "b"], "External-Description": "long " * 50}
    bagit.make_bag(str(tmp_path / "bag"), info, checksums=checksums)
    assert_valid(tmp_path / "bag")
    quick = bag("validate", "--quick", tmp_path / "bag")
    assert quick.returncode == 0, quick.stderr
    listed = [json.loads(line) for line in bag("inventory", tmp_path / "bag").stdout.splitlines()]
    assert {entry["path"] for entry in listed} == {"data/" + name for name in ODD_NAMES}
    for entry in listed:
        content = (tmp_path / "bag" / entry["path"]).read_bytes()
        assert entry["bytes"] == len(content)
        for algorithm, digest in entry["digests"].items():
            assert hashlib.new(algorithm.removesuffix("-512"), content).hexdigest() == digest


def test_both_find_the_same_damage(tmp_path: Path) -> None:
    source = fill(tmp_path / "source", ["a", "b", "c/d"])
    assert bag("create", source, tmp_path / "bag").returncode == 0
    damages = {
        "content": lambda: (tmp_path / "bag/data/a").write_bytes(b"x" * 1000),
        "missing": lambda: (tmp_path / "bag/data/b").unlink(),
        "added": lambda: (tmp_path / "bag/data/new").write_bytes(b""),
        "tag file": lambda: (tmp_path / "bag/bag-info.txt").write_text("Payload-Oxum: 5000.3\nA: b\n"),
    }
    for name, damage in damages.items():
        before = {path: path.read_bytes() for path in (tmp_path / "bag").rglob("*") if path.is_file()}
        damage()
        assert bagit_py("--validate", tmp_path / "bag").returncode != 0, name
        assert bag("validate", tmp_path / "bag").returncode == 1, name
        for path in set((tmp_path / "bag").rglob("*")) - set(before):
            if path.is_file():
                path.unlink()
        for path, content in before.items():
            path.write_bytes(content)
        assert_valid(tmp_path / "bag")


PROFILE = {
    "BagIt-Profile-Info": {
        "BagIt-Profile-Identifier": PROFILE_URI,
        "BagIt-Profile-Version": "1.3.0",
        "Source-Organization": "Example",
        "External-Description": "Example",
        "Version": "1",
    },
    "Bag-Info": {
        "Source-Organization": {"required": True, "values": ["Example", "Other"]},
        "Contact-Name": {"required": False, "repeatable": False},
    },
    "Manifests-Required": ["sha256"],
    "Manifests-Allowed": ["sha256", "sha512"],
    "Tag-Manifests-Required": ["sha256"],
    "Tag-Files-Required": ["meta/notes.txt"],
    "Tag-Files-Allowed": ["meta/*", "bag*"],
    "Allow-Fetch.txt": False,
    "Serialization": "forbidden",
    "Accept-BagIt-Version": ["0.97"],
}


@pytest.mark.parametrize(
    "change",
    [
        None,
        lambda profile, folder: profile.update({"Manifests-Required": ["sha512"]}),
        lambda profile, folder: profile.update({"Manifests-Required": [], "Manifests-Allowed": ["sha512"]}),
        lambda profile, folder: profile.update({"Tag-Manifests-Required": ["md5"]}),
        lambda profile, folder: profile.update({"Tag-Files-Required": ["meta/other.txt"]}),
        lambda profile, folder: profile.update({"Accept-BagIt-Version": ["1.0"]}),
        lambda profile, folder: profile["Bag-Info"].update({"Bag-Size": {"required": True}}),
        lambda profile, folder: profile["Bag-Info"].update({"Source-Organization": {"values": ["Other"]}}),
        lambda profile, folder: profile["Bag-Info"].update({"External-Identifier": {"repeatable": False}}),
        lambda profile, folder: (folder / "extra.txt").write_text("x"),
        lambda profile, folder: (folder / "fetch.txt").write_text(""),
    ],
)
def test_profiles_are_judged_as_by_bagit_profile(tmp_path: Path, change) -> None:
    folder = fill(tmp_path / "bag", ["a"])
    info = {"BagIt-Profile-Identifier": PROFILE_URI, "Source-Organization": "Example", "External-Identifier": ["a", "b"]}
    bagit.make_bag(str(folder), info, checksums=["sha256"])
    fill(folder, ["meta/notes.txt"])
    profile = json.loads(json.dumps(PROFILE))
    if change:
        change(profile, folder)
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    judged = bag("profile", tmp_path / "profile.json", folder)
    theirs = bagit_profile.Profile(PROFILE_URI, profile=profile).validate(bagit.Bag(str(folder)))
    assert theirs is (change is None)
    assert judged.returncode == (0 if theirs else 1), judged.stderr


def test_premis_documents_keep_every_name(tmp_path: Path) -> None:
    names = [*ODD_NAMES, "a\x01b%", "<&>\"'", "]]>", "\ufffe", "\x7f\x85"]
    document = etree.fromstring(run("premis", "xml", *names).stdout.encode())
    space = {"p": "http://www.loc.gov/premis/v3"}
    found = []
    for identifier in document.iterfind("p:object/p:objectIdentifier", space):
        kind, value = identifier.findtext("p:objectIdentifierType", None, space), identifier.findtext("p:objectIdentifierValue", None, space)
        if kind.endswith(" (percent-encoded)"):
            value = unquote(value)
        found.append(value)
    assert found == names
    # Of each type of event one, for each name.
    types = {event.findtext("p:eventType", None, space) for event in document.iterfind("p:event", space)}
    assert {"fixity check", "deaccession"} < types
    assert len(document.findall("p:event", space)) == len(types) * len(names)
    graph = json.loads(run("premis", "json", *names).stdout)["@graph"]
    assert [node["premis:identifier"]["rdf:value"] for node in graph if node["@type"] == "premis:File"] == names
