"""`fulgurite import` and `export`: bags and OCFL objects go into an archive and come out again, judged by programs of others."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path

import bagit
import pytest
from ocfl.object import Object
from ocfl.storage_root import StorageRoot
from ocfl.validator import Validator
from ocfl.version_metadata import VersionMetadata

from conftest import Archive

PROFILE_URI = "https://example.org/profile.json"
# What bagit-python keeps in its own bags. It writes version 0.97, which has no encoding of percent signs.
NAMES = [
    "a.txt",
    "deep/er/b  c",
    "ark:/13030/x|1|producer/f",
    "100%.txt",
    "100%25 of it",
    "a%20b",
    "ü/日本/🙂",
    "Nu\u0301n\u0303ez",
    "CASE",
    "case",
    "*star",
    "quote'\"&<>;$(x)`",
    "back\\slash",
    "empty",
    ".hidden/..dots",
]
TAG_FILES = {"meta/notes 100%.txt": b"notes", "other.xml": b"<x/>"}


def content(name: str) -> bytes:
    # One is longer than what an export passes in one piece.
    return b"" if name == "empty" else name.encode() * (100_000 if name == "a.txt" else 100) * 3


def fill(folder: Path, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(name))
    return folder


def make_bag(folder: Path, names: list[str] = NAMES, tag_files: dict[str, bytes] = TAG_FILES) -> Path:
    """A bag by bagit-python."""
    fill(folder, names)
    made = bagit.make_bag(str(folder), {"Contact-Name": ["a", "b"], "External-Description": "long  text: " * 20}, checksums=["md5", "sha512"])
    for name, text in tag_files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text)
    made.save()
    return folder


def payload(bag: Path) -> dict[str, bytes]:
    return {str(path.relative_to(bag / "data")): path.read_bytes() for path in (bag / "data").rglob("*") if path.is_file()}


def manifests(bag: Path) -> dict[str, set[str]]:
    return {path.name: set(path.read_text().splitlines()) for path in bag.glob("manifest-*.txt")}


def flip_a_bit(path: Path) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_bag_comes_out_as_it_went_in(archive: Archive, tmp_path: Path) -> None:
    source = make_bag(tmp_path / "in")
    said = archive.run("import", "bagit", source, "--to", "bags/ark:/1").answer
    tag_files = len(files_below(source)) - len(NAMES)
    assert said["imported"] == 1 and said["objects"] == len(NAMES) + tag_files and said["failed"] == said["refused"] == 0
    expected = {f"bags/ark:/1/{name}" for name in NAMES}
    expected |= {f"bags/ark:/1/.bag/{path.relative_to(source)}" for path in files_below(source) if "data" not in path.relative_to(source).parts}
    assert archive.names() == expected
    assert archive.get("bags/ark:/1/a.txt") == content("a.txt")
    # What is on platters comes out like what is staged.
    archive.run("flush")
    again = archive.run("import", "bagit", source, "--to", "bags/ark:/1").answer
    assert again["objects"] == 0 and again["unchanged"] == said["objects"]
    out = tmp_path / "out"
    answer = archive.run("export", "bagit", "bags/ark:/1", "--into", out).answer
    assert answer["payload_files"] == len(NAMES) and answer["tag_files"] == len(TAG_FILES)
    exported, original = bagit.Bag(str(out)), bagit.Bag(str(source))
    exported.validate()
    assert payload(out) == payload(source)
    assert manifests(out) == manifests(source)
    assert exported.version_info == original.version_info
    for name, text in TAG_FILES.items():
        assert (out / name).read_bytes() == text
    for info in (exported.info, original.info):
        del info["Bagging-Date"]
    # bagit-python alone names itself.
    assert exported.info == original.info
    # The archive takes what it has written itself.
    assert archive.run("import", "bagit", out, "--to", "again").answer["imported"] == 1


def test_version_1_0_encodes_percent_signs_and_comes_back(archive: Archive, tmp_path: Path) -> None:
    archive.run("put", fill(tmp_path / "files", NAMES), "--name", "files")
    archive.run("export", "bagit", "files", "--into", tmp_path / "bag", "--algorithm", "sha256", "--algorithm", "md5", "--info", "Contact-Name=ü")
    assert "data/100%25.txt" in (tmp_path / "bag/manifest-md5.txt").read_text()
    assert payload(tmp_path / "bag") == {name: content(name) for name in NAMES}
    archive.run("import", "bagit", tmp_path / "bag")
    for name in NAMES:
        assert archive.get(f"bag/{name}") == content(name)
    archive.run("export", "bagit", "files", "--into", tmp_path / "old", "--bagit-version", "0.97")
    bagit.Bag(str(tmp_path / "old")).validate()


def test_a_damaged_bag_is_not_imported(archive: Archive, tmp_path: Path) -> None:
    source = make_bag(tmp_path / "bag", ["a", "b/c"])
    original = {path: path.read_bytes() for path in files_below(source)}
    damages = {
        "content": lambda: flip_a_bit(source / "data/a"),
        "tag file": lambda: flip_a_bit(source / "other.xml"),
        "manifest": lambda: flip_a_bit(source / "manifest-md5.txt"),
        "missing": lambda: (source / "data/a").unlink(),
        "added": lambda: (source / "data/new").write_bytes(b""),
        "link": lambda: (source / "data/link").symlink_to("a"),
        "no declaration": lambda: (source / "bagit.txt").unlink(),
        "to fetch": lambda: ((source / "data/a").unlink(), (source / "fetch.txt").write_text("https://example.org/a - data/a\n")),
        "our name": lambda: fill(source, ["data/.bag/x"]),
    }
    for name, damage in damages.items():
        damage()
        said = archive.run("import", "bagit", source, status=1)
        assert said.answer["refused"] == 1 and said.answer["objects"] == 0 and said.messages("not imported"), name
        for path in set(source.rglob("*")) - set(original):
            if not path.is_dir() or path.is_symlink():
                path.unlink()
        for path, text in original.items():
            path.write_bytes(text)
    (source / "data/.bag").rmdir()
    assert archive.names() == set()
    # Others given with it are imported.
    flip_a_bit(source / "data/a")
    good = make_bag(tmp_path / "good", ["a"])
    said = archive.run("import", "bagit", source, good, status=1)
    assert said.answer["refused"] == said.answer["imported"] == 1
    assert [finding["severity"] for finding in said.messages("finding")] == ["error", "error"]
    assert {name.split("/")[0] for name in archive.names()} == {"good"}


def test_bags_are_not_mixed(archive: Archive, tmp_path: Path) -> None:
    archive.run("import", "bagit", make_bag(tmp_path / "one", ["a", "b"]), "--to", "bag")
    other = make_bag(tmp_path / "two", ["a", "c"])
    said = archive.run("import", "bagit", other, "--to", "bag", status=1)
    assert "bag/b" in said.messages("not imported")[0]["why"] and said.answer["objects"] == 0
    # A bag that has grown gets new versions.
    grown = make_bag(tmp_path / "three", ["a", "b", "c"])
    assert archive.run("import", "bagit", grown, "--to", "bag").answer["imported"] == 1
    archive.run("export", "bagit", "bag", "--into", tmp_path / "out")
    assert payload(tmp_path / "out").keys() == {"a", "b", "c"}
    archive.run("import", "bagit", other, grown, "--to", "bag", status=2)


def test_profiles_are_checked_both_ways(archive: Archive, tmp_path: Path) -> None:
    profile = {
        "BagIt-Profile-Info": {"BagIt-Profile-Identifier": PROFILE_URI, "Source-Organization": "Example", "External-Description": "x", "Version": "1"},
        "Bag-Info": {"Source-Organization": {"required": True}},
        "Manifests-Required": ["sha512"],
        "Accept-BagIt-Version": ["0.97", "1.0"],
    }
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    option = ("--profile", tmp_path / "profile.json")
    bag = make_bag(tmp_path / "bag", ["a"])
    assert archive.run("import", "bagit", bag, *option, status=1).answer["refused"] == 1
    assert archive.names() == set()
    archive.run("import", "bagit", bag)
    archive.run("export", "bagit", "bag", "--into", tmp_path / "out", *option, status=1)
    assert not (tmp_path / "out").exists() and not [path for path in tmp_path.iterdir() if "bagging" in path.name]
    archive.run("export", "bagit", "bag", "--into", tmp_path / "out", *option, "--info", "Source-Organization=Example", "--info", "Contact-Name=c")
    info = bagit.Bag(str(tmp_path / "out")).info
    assert info["BagIt-Profile-Identifier"] == PROFILE_URI and info["Contact-Name"] == "c"
    assert archive.run("import", "bagit", tmp_path / "out", *option).answer["imported"] == 1
    for wrong in (("--info", "no value"), ("--info", "Payload-Oxum=1.1"), ("--info", " x=y"), ("--algorithm", "crc32"), ("--profile", "nowhere")):
        archive.run("export", "bagit", "bag", "--into", tmp_path / "wrong", *wrong, status=2)
    assert not (tmp_path / "wrong").exists()


def test_what_formats_cannot_contain_is_refused_or_named(archive: Archive, tmp_path: Path) -> None:
    folder = fill(tmp_path / "files", ["a"])
    (folder / "link").symlink_to("a")
    (folder / "nothing").mkdir()
    archive.run("put", folder, "--name", "files")
    targets = {"bagit": tmp_path / "bag", "ocfl": tmp_path / "root"}
    for form, target in targets.items():
        said = archive.run("export", form, "files", "--into", target, status=1)
        assert {message["name"] for message in said.messages("not exportable")} == {"files/link", "files/nothing"}
        assert not target.exists()
    for form, target in targets.items():
        said = archive.run("export", form, "files", "--into", target, "--leave-out")
        assert {message["name"] for message in said.messages("left out")} == {"files/link", "files/nothing"}
        assert said.answer["left_out"] == 2
    bagit.Bag(str(targets["bagit"])).validate()
    assert payload(targets["bagit"]).keys() == {"a"}
    # A name that isn't UTF-8 stands for content, so it is never left out.
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9")).write_bytes(b"x")
    archive.run("put", folder, "--name", "files")
    for form, target in targets.items():
        said = archive.run("export", form, "files", "--into", tmp_path / f"other-{form}", "--leave-out", status=1)
        assert [message["name"] for message in said.messages("not exportable")] == ["files/caf\\xe9"]
    archive.run("export", "bagit", "nowhere", "--into", tmp_path / "x", status=1)
    archive.run("export", "bagit", "files/a", "--into", tmp_path / "x", status=1)
    archive.run("export", "bagit", "files", "--into", targets["bagit"], status=1)


def validate_object(folder: Path) -> None:
    validator = Validator()
    assert validator.validate_object(str(folder)), str(validator)


# ocfl-py reads the names of files from a folder, whatever they are.
@pytest.mark.parametrize("identifier", ["urn:abc", "ark:/13030/x|1|100%", "https://example.org//a/../b"])
def test_ocfl_objects_of_ocfl_py_come_out_as_they_went_in(archive: Archive, tmp_path: Path, identifier: str) -> None:
    source = fill(tmp_path / "source", NAMES)
    metadata = VersionMetadata(created="2026-11-25T07:26:23Z", message="made", name="Example", address="mailto:a@example.org")
    Object(identifier=identifier, spec_version="1.1").create(srcdir=str(source), metadata=metadata, objdir=str(tmp_path / "object"))
    part = identifier.replace("%", "%25").replace("/", "%2F")
    said = archive.run("import", "ocfl", tmp_path / "object", "--to", "objects").answer
    assert said["imported"] == 1
    assert archive.names() == {f"objects/{part}/{name}" for name in [*NAMES, ".ocfl/inventory.json", ".ocfl/inventory.json.sha512"]}
    archive.run("flush")
    root = tmp_path / "root"
    answer = archive.run("export", "ocfl", f"objects/{part}", "--into", root, "--fixity", "md5").answer
    assert answer["object"] == identifier and answer["version"] == "v1" and answer["files"] == len(NAMES)
    validate_object(root / answer["place"])
    assert StorageRoot(root=str(root)).validate()
    inventory, original = (json.loads((folder / "inventory.json").read_text()) for folder in (root / answer["place"], tmp_path / "object"))
    states = [
        {path: digest for digest, paths in one["versions"]["v1"]["state"].items() for path in paths} for one in (inventory, original)
    ]
    assert inventory["id"] == identifier and states[0] == states[1]
    assert set(inventory["fixity"]["md5"]) == {hashlib.md5(content(name)).hexdigest() for name in NAMES}
    # Without a change no version is made.
    assert archive.run("export", "ocfl", f"objects/{part}", "--into", root).answer["version"] is None
    # A storage root goes in as a whole, and what is unchanged isn't stored again.
    again = archive.run("import", "ocfl", root, "--to", "objects").answer
    assert again["imported"] == 1 and again["unchanged"] == len(NAMES)


def test_a_changed_folder_is_a_new_version_of_its_object(archive: Archive, tmp_path: Path) -> None:
    folder, root = fill(tmp_path / "files", ["a", "b/c", "gone"]), tmp_path / "root"
    archive.run("put", folder, "--name", "files")
    export = ("export", "ocfl", "files", "--into", root, "--object", "urn:x")
    assert archive.run(*export, "--layout", "0004").answer["version"] == "v1"
    archive.run(*export, "--layout", "0003", status=2)
    archive.run("rm", "files/gone")
    (folder / "a").write_bytes(b"changed")
    archive.run("put", folder / "a", "--name", "files/a")
    answer = archive.run(*export, "--message", "second", "--user", "Example", "--address", "mailto:a@example.org").answer
    assert answer["version"] == "v2" and answer["stored_files"] == 1
    validate_object(root / answer["place"])
    inventory = json.loads((root / answer["place"] / "inventory.json").read_text())
    assert sorted(path for paths in inventory["versions"]["v2"]["state"].values() for path in paths) == ["a", "b/c"]
    assert inventory["versions"]["v2"]["message"] == "second"
    # Every version can be imported.
    said = archive.run("import", "ocfl", root, "--to", "history", "--all-versions").answer
    assert said["imported"] == 1
    names = {name for name in archive.names() if name.startswith("history/urn:x/v")}
    assert names == {f"history/urn:x/{name}" for name in ("v1/a", "v1/b/c", "v1/gone", "v2/a", "v2/b/c")}
    assert archive.get("history/urn:x/v1/a") == content("a") and archive.get("history/urn:x/v2/a") == b"changed"


def test_a_damaged_object_is_not_imported(archive: Archive, tmp_path: Path) -> None:
    archive.run("put", fill(tmp_path / "files", ["a", "b"]), "--name", "files")
    root = tmp_path / "root"
    for name in ("one", "two"):
        place = root / archive.run("export", "ocfl", "files", "--into", root, "--object", name).answer["place"]
    path = next(path for path in files_below(place) if path.name == "a")
    flip_a_bit(path)
    said = archive.run("import", "ocfl", root, "--to", "objects", status=1)
    assert said.answer["imported"] == said.answer["refused"] == 1 and "E092" in said.err
    assert {name for name in archive.names() if name.startswith("objects")} == {
        f"objects/one/{name}" for name in ("a", "b", ".ocfl/inventory.json", ".ocfl/inventory.json.sha512")
    }
    archive.run("import", "ocfl", tmp_path / "nowhere", status=1)
    archive.run("import", "ocfl", tmp_path / "files", status=1)


def test_an_object_that_the_archive_has_lost_is_not_exported(archive: Archive, tmp_path: Path) -> None:
    archive.run("put", fill(tmp_path / "files", ["a.txt", "b"]), "--name", "files")
    archive.run("flush")
    for number in range(3):
        for platter in (tmp_path / f"store{number}").rglob("*"):
            if platter.is_file() and platter.stat().st_size > 1 << 16:
                platter.write_bytes(b"\0" * platter.stat().st_size)
    for form in ("bagit", "ocfl"):
        archive.run("export", form, "files", "--into", tmp_path / form, status=1)
    assert not (tmp_path / "bagit").exists() and not any(path.name == "inventory.json" for path in files_below(tmp_path / "ocfl"))


def audit(archive: Archive, folder: Path, *arguments: object, status: int = 0) -> str:
    return archive.run("audit", "--database", folder / "audit.db", *arguments, status=status).out


def problems(archive: Archive, folder: Path) -> list[str]:
    return [json.loads(line)["name"] for line in audit(archive, folder, "problems", status=1).splitlines()]


def test_an_audit_of_a_bag_and_a_storage_root_finds_a_flipped_bit(archive: Archive, tmp_path: Path) -> None:
    seed = 20261125
    print(f"seed {seed}")
    chance = random.Random(seed)
    node = tmp_path / "node"
    node.mkdir()
    bag = make_bag(node / "bag")
    archive.run("import", "bagit", bag)
    exported = archive.run("export", "ocfl", "bag", "--into", node / "root", "--object", "ark:/1").answer
    audit(archive, tmp_path, "init")
    audit(archive, tmp_path, "node", "add", "disk", node)
    listed = json.loads(audit(archive, tmp_path, "inventory", "bagit", bag, "--node", "disk"))
    assert listed["files"] == listed["copies"] == len(files_below(bag))
    listed = json.loads(audit(archive, tmp_path, "inventory", "ocfl", node / "root", "--node", "disk", "--prefix", "root"))
    assert listed["files"] == exported["stored_files"]
    # Nothing lists the tag manifests, so one reading of them is no proof.
    found = json.loads(audit(archive, tmp_path, "run", status=3))["found"]
    assert found == {"unverified": 2, "verified": listed["files"] + len(files_below(bag)) - 2}
    damaged = [bag / "data" / chance.choice([name for name in NAMES if name != "empty"])]
    damaged.append(chance.choice([path for path in files_below(node / "root") if "content" in path.parts and path.stat().st_size]))
    for path in damaged:
        flip_a_bit(path)
    # The folder has to be read again, although it was verified a moment ago.
    (tmp_path / "audit.db").unlink()
    audit(archive, tmp_path, "init")
    audit(archive, tmp_path, "node", "add", "disk", node)
    audit(archive, tmp_path, "inventory", "bagit", bag, "--node", "disk", "--prefix", "{bag}")
    audit(archive, tmp_path, "inventory", "ocfl", node / "root", "--node", "disk", "--prefix", "root/")
    audit(archive, tmp_path, "run", status=1)
    place = node / "root" / exported["place"]
    assert sorted(problems(archive, tmp_path)) == sorted([str(damaged[0].relative_to(node)), f"ark:/1/{damaged[1].relative_to(place)}"])
    audit(archive, tmp_path, "inventory", "bagit", bag, bag, "--prefix", "x", status=2)


def test_an_audit_reads_the_archive_as_one_of_the_nodes(archive: Archive, tmp_path: Path) -> None:
    folder = fill(tmp_path / "files", NAMES)
    archive.run("put", folder, "--name", "files")
    archive.run("flush")
    audit(archive, tmp_path, "init")
    audit(archive, tmp_path, "node", "add", "archive", f"archive:{archive.folder}")
    audit(archive, tmp_path, "node", "add", "disk", tmp_path)
    listed = json.loads(audit(archive, tmp_path, "inventory", "archive", "files"))
    assert (listed["files"], listed["copies"]) == (len(NAMES), 2 * len(NAMES))
    flip_a_bit(folder / "a.txt")
    audit(archive, tmp_path, "run", status=1)
    assert problems(archive, tmp_path) == ["files/a.txt"]
    # The good copy is read from platters, and the archive itself is never written.
    audit(archive, tmp_path, "repair", "--apply")
    assert (folder / "a.txt").read_bytes() == content("a.txt")
    audit(archive, tmp_path, "node", "add", "nowhere", f"archive:{tmp_path / 'nowhere'}", status=1)
