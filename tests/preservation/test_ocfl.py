"""OCFL: what Fulgurite writes, other validators accept; what they write, Fulgurite accepts; and they agree about damage.

    CARGO_EXAMPLES (default target/debug/examples)   where `cargo build -p fulgurite-ocfl --examples` puts the program `ocfl`
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ocfl.object import Object
from ocfl.storage_root import StorageRoot
from ocfl.validator import Validator
from ocfl.version_metadata import VersionMetadata

EXAMPLES = Path(os.environ.get("CARGO_EXAMPLES", Path(__file__).parents[2] / "target/debug/examples"))
LAYOUTS = [
    "0002-flat-direct-storage-layout",
    "0003-hash-and-id-n-tuple-storage-layout",
    "0004-hashed-n-tuple-storage-layout",
    "0006-flat-omit-prefix-storage-layout",
    "0007-n-tuple-omit-prefix-storage-layout",
]
# ocfl-py knows no others.
LAYOUTS_OF_OCFL_PY = LAYOUTS[:2]
IDS = ["urn:abc", "ark:x12345"]
FILES = {
    "a/b.txt": b"hi\n",
    "x|1 100%.txt": b"odd\n",
    "café": "precomposed".encode(),
    "cafe\u0301": b"decomposed",
    "CON.txt": b"",
    "ends with.": b"dot",
    "long/" + "y" * 250: b"long",
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def is_valid(folder: Path) -> bool:
    """What ocfl-py thinks of an object. It raises TypeError for some invalid ones."""
    try:
        return Validator(log_warnings=False).validate_object(str(folder))
    except TypeError:
        return False


@pytest.fixture(scope="session")
def ocfl() -> Callable[..., str]:
    """Runs the example, which has to exit with the expected status, and gives what it printed."""

    def run(*arguments: object, status: int = 0) -> str:
        ran = subprocess.run([EXAMPLES / "ocfl", *map(str, arguments)], capture_output=True, text=True, encoding="utf-8")
        assert ran.returncode == status, f"{arguments}: exit status {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    return run


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    second = {name: content for name, content in FILES.items() if name != "a/b.txt"} | {"new": b"new", "copy": b"odd\n"}
    return [write(tmp_path / "first", FILES), write(tmp_path / "second", second)]


def fill(ocfl, root: Path, spec: str, layout: str, sources: list[Path]) -> list[Path]:
    ocfl("create", root, spec, layout)
    for identifier in IDS:
        ocfl("put", root, identifier, sources[0], "md5", "sha256")
        ocfl("put", root, identifier, sources[1], "md5", "blake2b-512")
    return [root / line.split("\t")[2] for line in ocfl("list", root).splitlines()]


@pytest.mark.parametrize("spec", ["1.0", "1.1"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_ocfl_py_accepts_what_is_written(ocfl, tmp_path: Path, sources: list[Path], layout: str, spec: str) -> None:
    root = tmp_path / "root"
    objects = fill(ocfl, root, spec, layout, sources)
    assert len(objects) == len(IDS)
    for folder in objects:
        validator = Validator()
        assert validator.validate_object(str(folder)), str(validator)
        assert not validator.log.codes, "there are no warnings either"
    if layout in LAYOUTS_OF_OCFL_PY:
        assert StorageRoot(root=str(root)).validate()
    assert "Valid: 2 valid" in ocfl("validate-root", root)


@pytest.mark.parametrize("spec", ["1.0", "1.1"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rocfl_accepts_what_is_written(ocfl, rocfl: str, tmp_path: Path, sources: list[Path], layout: str, spec: str) -> None:
    root = tmp_path / "root"
    fill(ocfl, root, spec, layout, sources)
    ran = subprocess.run([rocfl, "-r", root, "validate"], capture_output=True, text=True)
    assert ran.returncode == 0 and "Invalid objects: 0" in ran.stdout and "Storage issues:  0" in ran.stdout, ran.stdout + ran.stderr
    # It finds them by their identifiers, so the layout is the same.
    for identifier in IDS:
        listed = subprocess.run([rocfl, "-r", root, "ls", identifier], capture_output=True, text=True)
        assert set(listed.stdout.splitlines()) == {path.relative_to(sources[1]).as_posix() for path in sources[1].rglob("*") if path.is_file()}


@pytest.mark.parametrize("spec", ["1.0", "1.1"])
def test_what_ocfl_py_writes_is_accepted(ocfl, tmp_path: Path, sources: list[Path], spec: str) -> None:
    metadata = VersionMetadata(created="2026-11-25T07:26:23Z", message="written by ocfl-py", name="Example", address="mailto:a@example.org")
    written = Object(identifier="urn:abc", spec_version=spec, digest_algorithm="sha512", fixity=["md5", "sha1"])
    written.create(srcdir=str(sources[0]), metadata=metadata, objdir=str(tmp_path / "object"))
    assert "Valid" in ocfl("validate-object", tmp_path / "object")


def test_both_agree_about_damage(ocfl, tmp_path: Path, sources: list[Path]) -> None:
    seed = 20261125
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole = fill(ocfl, tmp_path / "root", "1.1", LAYOUTS[1], sources)[0]
    disagreements = []
    for number in range(60):
        folder = tmp_path / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        path = chance.choice(sorted(path for path in whole.rglob("*") if path.is_file()))
        damaged = folder / path.relative_to(whole)
        content = path.read_bytes()
        match chance.randrange(4):
            case 0:
                damaged.unlink()
            case 1:
                damaged.write_bytes(content + b"x")
            case 2:
                damaged.rename(damaged.with_name(damaged.name + ".moved"))
            case _:
                at = chance.randrange(len(content) or 1)
                damaged.write_bytes(content[:at] + bytes([(content or b"x")[at] ^ 1]) + content[at + 1 :])
        # ocfl-py doesn't look at the sidecar of the newest version's own inventory.
        theirs = is_valid(folder) and path != whole / "v2/inventory.json.sha512"
        ran = subprocess.run([EXAMPLES / "ocfl", "validate-object", folder], capture_output=True, text=True)
        if ran.returncode != (0 if theirs else 1):
            disagreements.append((number, path, theirs, ran.stdout))
    assert not disagreements


def test_both_agree_about_edited_inventories(ocfl, tmp_path: Path, sources: list[Path]) -> None:
    whole = fill(ocfl, tmp_path / "root", "1.1", LAYOUTS[1], sources)[0]
    text = (whole / "inventory.json").read_text()
    inventory = json.loads(text)
    edits = {
        "without fixity": lambda edited: edited.pop("fixity"),
        "without manifest": lambda edited: edited.pop("manifest"),
        "another head": lambda edited: edited.update(head="v1"),
        "another type": lambda edited: edited.update(type="https://ocfl.io/1.0/spec/#inventory"),
        "no time": lambda edited: edited["versions"]["v2"].update(created="2026-11-25"),
        "an empty state": lambda edited: edited["versions"]["v2"].update(state={}),
        "a conflict": lambda edited: next(iter(edited["versions"]["v2"]["state"].values())).append("new/below"),
        "an unknown key": lambda edited: edited.update(other=1),
        "a third version": lambda edited: edited["versions"].update(v3=edited["versions"]["v2"]),
    }
    for name, edit in edits.items():
        folder = tmp_path / "edited"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        edited = json.loads(text)
        edit(edited)
        assert edited != inventory
        changed = json.dumps(edited).encode()
        for place in (folder, folder / "v2"):
            (place / "inventory.json").write_bytes(changed)
            (place / "inventory.json.sha512").write_text(f"{hashlib.sha512(changed).hexdigest()} inventory.json\n")
        expected = name == "without fixity"
        # ocfl-py doesn't check E038, the type against the declaration, nor E102, unknown keys.
        assert is_valid(folder) == expected or name in ("another type", "an unknown key"), name
        ocfl("validate-object", folder, status=0 if expected else 1)
