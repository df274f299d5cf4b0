"""Places at real servers: tests inspect the servers' folders and compare the reported causes."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from pathlib import Path

import pytest

from conftest import Place, free_port

# What people and programs name files: each has something that must be quoted in a path, a header, XML or a signature.
ODD_NAMES = [
    "plain.txt",
    "with space.txt",
    "two  spaces.txt",
    "a+b.txt",
    "100%.txt",
    "50%25 of it.txt",
    "grüße/日本語 ☃.txt",
    "e\u0301 in two code points.txt",
    "quote'\"&<>.txt",
    "semi;colon=and?more#.txt",
    "~tilde!*().txt",
    "deep/er/and deeper/file",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_kept(place: Place, name: str) -> None:
    content = name.encode() * 3
    if place.url.startswith("webdav:") and "?" in name:
        # WsgiDAV 4.3.3 takes the encoded question mark of a destination for the start of a query, moves the file elsewhere and
        # acknowledges that. It must not pass for written.
        assert place.cause("write", name, content=content) == "fault"
        return
    place.do("write", name, content=content)
    assert (place.folder / name).read_bytes() == content
    assert place.do("read", name) == content
    assert place.do("length", name) == f"{len(content)}\n".encode()
    assert place.listed()[name] == len(content)
    place.do("remove", name)
    assert not (place.folder / name).exists()
    assert name not in place.listed()


@pytest.mark.parametrize("length", [0, 1, 32768, 32769, 8 << 20, (8 << 20) + 1, 20_000_003])
def test_every_length_survives(place: Place, length: int) -> None:
    content = random.Random(length).randbytes(length)
    place.do("write", "length", content=content)
    assert (place.folder / "length").read_bytes() == content
    assert place.do("read", "length") == content
    place.do("remove", "length")


def test_a_file_is_replaced_as_a_whole(place: Place) -> None:
    place.do("write", "again/file", content=b"longer than the next")
    place.do("write", "again/file", content=b"next")
    assert place.do("read", "again/file") == b"next"
    assert [name for name in place.listed() if name.startswith("again/")] == ["again/file"]
    place.do("remove", "again/file")


def test_what_is_missing_is_missing(place: Place) -> None:
    place.do("write", "there", content=b"x")
    for location in ("nothing", "no/such/folder/file"):
        assert place.cause("length", location) == "missing"
        assert place.cause("read", location) == "missing"
        place.do("remove", location)
    place.do("remove", "there")


# rclone's S3 server answers from memory for a while; test_fulgurite.py removes a bucket.
@pytest.mark.parametrize("server", ["sftp", "webdav"])
def test_nothing_is_missing_without_its_folder(server: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    place: Place = request.getfixturevalue(server)
    place.do("write", "there", content=b"x")
    folder = place.folder
    shutil.move(folder, tmp_path / "away")
    try:
        for command in ("length", "read", "list"):
            words = [] if command == "list" else ["there"]
            assert place.cause(command, *words) == ("absent" if server == "sftp" else "fault"), command
    finally:
        shutil.move(tmp_path / "away", folder)
    assert place.do("read", "there") == b"x"
    place.do("remove", "there")


def test_wrong_credentials_are_denied(place: Place, tmp_path: Path) -> None:
    if place.url.startswith("sftp:"):
        shutil.copy(place.folder.parent / "host", tmp_path / "other")
        (tmp_path / "other").chmod(0o600)
        options = [f"key={tmp_path / 'other'}" if option.startswith("key=") else option for option in place.options]
        wrong = Place(place.url, options, place.folder, {"SSH_AUTH_SOCK": ""})
    else:
        wrong = Place(place.url, place.options, place.folder, dict.fromkeys(place.environment, "wrong"))
    for command in ("length", "read", "list"):
        assert wrong.cause(command, *([] if command == "list" else ["there"])) == "denied", command


def test_an_unknown_host_is_denied(sftp: Place, tmp_path: Path) -> None:
    (tmp_path / "known_hosts").touch()
    options = [f"known_hosts={tmp_path / 'known_hosts'}" if option.startswith("known_hosts=") else option for option in sftp.options]
    assert Place(sftp.url, options, sftp.folder).cause("length", "there") == "denied"


def test_a_server_that_does_not_listen_is_a_fault_of_the_connection(place: Place) -> None:
    port = place.url.split("/")[2].rpartition(":")[2] if not place.url.startswith("s3:") else place.options[0].rpartition(":")[2]
    closed = str(free_port())
    options = [option.replace(f":{port}", f":{closed}") for option in place.options]
    gone = Place(place.url.replace(f":{port}", f":{closed}"), options, place.folder, place.environment)
    assert gone.cause("read", "there") == "connection"


# Buckets have no folders.
@pytest.mark.parametrize("server", ["sftp", "webdav"])
def test_a_folder_is_no_file(server: str, request: pytest.FixtureRequest) -> None:
    place: Place = request.getfixturevalue(server)
    (place.folder / "folder/inner").mkdir(parents=True)
    assert place.cause("length", "folder") == "unsupported"
    assert place.cause("remove", "folder") != "missing"
    assert (place.folder / "folder/inner").is_dir()
    shutil.rmtree(place.folder / "folder")


# Root may read everything.
if os.geteuid() != 0:

    def test_a_file_without_permission_is_denied(sftp: Place) -> None:
        (sftp.folder / "locked").write_bytes(b"x")
        (sftp.folder / "locked").chmod(0)
        assert sftp.cause("read", "locked") == "denied"
        (sftp.folder / "locked").unlink()


def test_damage_in_the_server_s_folder_is_read_as_it_is(place: Place) -> None:
    content = bytearray(random.Random(1).randbytes(1 << 20))
    place.do("write", "damaged", content=bytes(content))
    content[123_456] ^= 1
    (place.folder / "damaged").write_bytes(content)
    assert place.do("read", "damaged") == content
    place.do("remove", "damaged")


def test_a_signed_url_can_be_fetched_by_anyone(s3: Place) -> None:
    import urllib.request

    s3.do("write", "signed one", content=b"content")
    url = s3.do("url", "signed one").decode().strip()
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.read() == b"content"
    s3.do("remove", "signed one")


def test_what_a_place_states_is_compared_with_its_content(place: Place) -> None:
    content = b"the content of a file that is checked"
    place.do("write", "stated", content=content)
    length, *digests = place.do("stated", "stated").decode().splitlines()
    assert int(length) == len(content)
    # rclone and versitygw use the MD5 as ETag; the others state no digest.
    assert digests == ([f"md5:{hashlib.md5(content).hexdigest()}"] if place.url.startswith("s3:") else [])
    place.do("remove", "stated")
    assert place.cause("stated", "stated") == "missing"
