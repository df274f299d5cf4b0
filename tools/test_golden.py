#!/usr/bin/env python3
"""The golden files of format version 1, and sealed keys of version 2, read by `read_platter.py` as anyone would run it: whole and damaged.

They were written once and stay as they are. The segment, which is no business of `read_platter.py`, is walked here.

Run: python3 tools/test_golden.py
"""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
GOLDEN = TOOLS.parent / "tests" / "golden" / "v1"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
PLATTERS = [platter["file"] for platter in EXPECTED["platters"]]

# As docs/format.md has it for 10+3 sectors of 1 KiB, groups of 4+2 tracks, 13 information tracks.
H, SECTOR, TRACK, TRACKS = 16_384, 1_088, 13 * 1_088, 20
GROUPS = [(range(0, 4), range(4, 6)), (range(6, 10), range(10, 12)), (range(12, 16), range(16, 18)), (range(18, 19), range(19, 20))]


def sector_offset(track: int, sector: int) -> int:
    return H + (H if track >= 10 else 0) + track * TRACK + sector * SECTOR


class Golden(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.images = [bytearray((GOLDEN / name).read_bytes()) for name in PLATTERS]

    def spoil(self, position: int, track: int, sectors) -> None:
        for sector in sectors:
            self.images[position][sector_offset(track, sector) + 37 * sector] ^= 0x40

    def platters(self, positions=(0, 1, 2)) -> list[str]:
        for position in positions:
            (self.folder / f"{position}").write_bytes(self.images[position])
        return [str(self.folder / f"{position}") for position in positions]

    def run_reader(self, *arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, str(TOOLS / "read_platter.py"), *arguments]
        return subprocess.run(command, capture_output=True, check=False, encoding="utf-8", errors="surrogateescape")

    def assert_all_back(self, platters: list[str], *keys: str) -> str:
        """Every archived object, and nothing that was deleted. Gives back what the reader reported."""
        keys = keys or ("--keys", str(GOLDEN / "keys.txt"))
        out = os.path.join(os.fsencode(self.folder), b"out")
        shutil.rmtree(out, ignore_errors=True)
        done = self.run_reader("get", *platters, *keys, "--all-versions", "-o", os.fsdecode(out))
        self.assertEqual(done.returncode, 0, done.stderr)
        newest = {o["name_hex"]: o["version"] for o in sorted(EXPECTED["objects"], key=lambda o: o["version"])}
        names = set()
        for o in EXPECTED["objects"]:
            name = bytes.fromhex(o["name_hex"])
            name += b"" if newest[o["name_hex"]] == o["version"] else b".~%d~" % o["version"]
            path = os.path.join(out, name)
            names.add(path)
            if o["kind"] == 2:
                self.assertTrue(os.path.isdir(path), name)
            else:
                content = os.readlink(path) if o["kind"] == 1 else Path(os.fsdecode(path)).read_bytes()
                self.assertEqual((len(content), hashlib.sha256(content).hexdigest()), (o["size"], o["sha256"]), name)
            found = os.lstat(path)
            self.assertEqual(found.st_mtime_ns, o["mtime"][0] * 1_000_000_000 + o["mtime"][1], name)
            if o["mode"] is not None and o["kind"] != 1:
                self.assertEqual(found.st_mode & 0o7777, o["mode"], name)
        written = {os.path.join(at, name) for at, folders, files in os.walk(out) for name in folders + files}
        parents = {os.path.dirname(name) for name in names}
        self.assertEqual(written - parents, names - parents)
        return done.stderr


class Whole(Golden):
    def test_the_files_are_those_that_were_written(self) -> None:
        self.assertEqual({path.name for path in GOLDEN.iterdir()}, {*EXPECTED["files"], "expected.json"})
        for name, expected in EXPECTED["files"].items():
            content = (GOLDEN / name).read_bytes()
            self.assertEqual((len(content), hashlib.sha256(content).hexdigest()), (expected["bytes"], expected["sha256"]), name)

    def test_every_object_comes_back_with_either_form_of_the_keys(self) -> None:
        self.assertNotIn("rebuilt", self.assert_all_back(self.platters()))
        passphrase = self.folder / "passphrase"
        passphrase.write_text(EXPECTED["passphrase"])
        self.assert_all_back(self.platters(), "--keys", str(GOLDEN / "keys.sealed"), "--passphrase-file", str(passphrase))

    def test_sealed_keys_of_version_2_open_whole_and_damaged(self) -> None:
        passphrase = self.folder / "passphrase"
        passphrase.write_text(EXPECTED["passphrase"])
        keys = (GOLDEN.parent / "v2" / "keys.sealed").read_bytes()
        damaged = self.folder / "keys"
        for content in (keys, keys[: 2 * 1_024], bytes(8 * 1_024) + keys[8 * 1_024 :], b"a line\n" + keys[1_500:]):
            damaged.write_bytes(content)
            err = self.assert_all_back(self.platters(), "--keys", str(damaged), "--passphrase-file", str(passphrase))
            self.assertEqual("were corrected" in err, content != keys)

    def test_ls_lists_what_is_expected(self) -> None:
        done = self.run_reader("ls", *self.platters(), "--keys", str(GOLDEN / "keys.txt"), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = []
        for o in json.loads(done.stdout)["objects"]:
            self.assertTrue(o["complete"])
            name = o["name_hex"] if "name_hex" in o else o["name"].encode().hex()
            listed.append({key: o[key] for key in EXPECTED["objects"][0] if key != "name_hex"} | {"name_hex": name})
        self.assertEqual(sorted(listed, key=lambda o: o["version_identifier"]), EXPECTED["objects"])

    def test_without_keys_what_is_sealed_stays_so_and_what_was_deleted_is_not_shown(self) -> None:
        done = self.run_reader("ls", *self.platters(), "--json")
        objects = json.loads(done.stdout)["objects"]
        sealed = {o["version_identifier"] for o in objects if "stored_bytes" in o}
        self.assertEqual(sealed, {o["version_identifier"] for o in EXPECTED["objects"] if o["sealed"]})
        self.assertFalse({o["version_identifier"] for o in objects} & set(EXPECTED["deleted"]))

    def test_inspect_finds_nothing_lost(self) -> None:
        for position, path in enumerate(self.platters()):
            report = json.loads(self.run_reader("inspect", path, "--json").stdout)
            self.assertEqual((report["platter"], report["set"]), (EXPECTED["platters"][position]["platter"], EXPECTED["set"]))
            self.assertEqual((report["file_bytes"], report["good_header_copies"]), (report["expected_bytes"], [0, 1, 2]))
            lost = {level: count["lost"] for level, count in report["health"].items() if level.endswith("_sectors")}
            self.assertEqual(set(lost.values()), {0})


class Damaged(Golden):
    def test_three_sectors_of_every_track(self) -> None:
        for position in range(3):
            for track in range(TRACKS):
                self.spoil(position, track, [(track + n * 4) % 13 for n in range(3)])
        self.assertIn("by the track code", self.assert_all_back(self.platters()))

    def test_as_many_tracks_of_every_group_as_it_has_redundancy(self) -> None:
        for position in range(3):
            for number, (information, redundancy) in enumerate(GROUPS):
                tracks = [*information, *redundancy]
                for n in range(len(redundancy)):
                    self.spoil(position, tracks[(number + 2 * n) % len(tracks)], range(13))
        err = self.assert_all_back(self.platters())
        self.assertIn("by the large group code", err)
        self.assertNotIn("by the set code", err)

    def test_any_platter_gone(self) -> None:
        for gone in range(3):
            with self.subTest(gone=gone):
                self.assert_all_back(self.platters([position for position in range(3) if position != gone]))

    def test_a_platter_gone_and_the_others_damaged(self) -> None:
        for position in (1, 2):
            for track in range(TRACKS):
                self.spoil(position, track, [track % 13, (track + 5) % 13])
            self.spoil(position, 7, range(13))
            self.images[position][:200] = bytes(200)
        err = self.assert_all_back(self.platters([1, 2]))
        for code in ("track", "large group", "set"):
            self.assertIn(f"by the {code} code", err)

    def test_a_platter_without_a_header_and_one_cut_short(self) -> None:
        for offset in (0, H + 10 * TRACK, 2 * H + TRACKS * TRACK):
            self.images[0][offset : offset + H] = bytes(H)
        del self.images[1][H + 6 * TRACK + 99 :]
        self.assert_all_back(self.platters())

    def test_more_than_the_codes_can_give_back_is_named_and_the_rest_is_there(self) -> None:
        done = self.run_reader("get", *self.platters([1]), "--keys", str(GOLDEN / "keys.txt"), "-o", str(self.folder / "out"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("sealed/large: content bytes from 0 on are on no platter at hand", done.stderr)
        self.assertEqual((self.folder / "out/notes/day.txt").read_text(), "the newer text, a little longer\n")


def crc64(data: bytes) -> int:
    """CRC-64/NVME, bit by bit."""
    crc = (1 << 64) - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x9A6C9329AC4BC9B5 if crc & 1 else 0)
    return crc ^ (1 << 64) - 1


def records(segment: bytes) -> Iterator[tuple[int, bytes, int, int, bytes]]:
    """Kind, version, offset, flags and payload of each good record."""
    at, number = 64, segment[32:40]
    while at + 64 <= len(segment):
        head = segment[at : at + 64]
        kind, version, offset, length, flags, payload_crc, place, head_crc = struct.unpack("<4xI16sQIIQQQ", head)
        if head[:4] != b"FREC" or place != at or head_crc != crc64(number + head[:56]):
            at += 64
            continue
        payload = segment[at + 64 : at + 64 + length]
        at += 64 + -(-length // 64) * 64
        if crc64(payload) == payload_crc:
            yield kind, version, offset, flags, payload


class Segment(Golden):
    def test_the_staged_objects_are_there_and_the_torn_record_is_not(self) -> None:
        (path,) = GOLDEN.glob("*.segment")
        segment = path.read_bytes()
        self.assertEqual(segment[:16], b"FULGSEGM" + struct.pack("<II", 1, 0))
        self.assertEqual((segment[16:32].hex(), int.from_bytes(segment[32:40], "little")), (EXPECTED["archive"], int(path.stem, 16)))
        self.assertEqual(int.from_bytes(segment[56:64], "little"), crc64(segment[:56]))
        found = list(records(segment))
        self.assertEqual([kind for kind, *_ in found], [1, 1, 2, 1, 2, 3])
        for expected in EXPECTED["staged"]:
            mine = [record for record in found if record[1].hex() == expected["version_identifier"]]
            stored_bytes = expected["size"] + 16 * -(-expected["size"] // 65_536)
            *data, (_, _, offset, flags, _) = mine
            self.assertEqual((offset, flags), (stored_bytes, int(expected["sealed"])))
            self.assertEqual([start for _, _, start, _, _ in data], list(range(0, stored_bytes, 65_552)))
            if not expected["sealed"]:
                content = b"".join(payload[:-16] for *_, payload in data)
                self.assertEqual(hashlib.sha256(content).hexdigest(), expected["sha256"])


class Glass(Golden):
    def test_the_object_on_glass_comes_back(self) -> None:
        image = (GOLDEN.parent / "glass" / "information-0.platter").read_bytes()
        self.assertEqual(hashlib.sha256(image).hexdigest(), "4c685948f92f9c2e5e3d39529d28b943e299cdeaa1ddd88197b5558aad6e395b")
        path, out = self.folder / "platter", self.folder / "out"
        path.write_bytes(image)
        done = self.run_reader("get", str(path), "-o", str(out))
        self.assertEqual(done.returncode, 0, done.stderr)
        content = (out / "golden" / "glass").read_bytes()
        self.assertEqual(hashlib.sha256(content).hexdigest(), "345f9985793f243ccdc4bbf285d6db7b5b10a166cdfa15b8c3c6ded55edf4095")


if __name__ == "__main__":
    unittest.main()
