#!/usr/bin/env python3
"""Tests of `read_platter.py`: a small writer, from `docs/format.md` alone and as naive as can be, then damage of every kind.

The writer here is slow on purpose (shift-and-add multiplication, byte-wise checksum, codes by their sums), so that it is the
oracle of the reader's fast ways. Two sets are written once for all tests:

    set A   S = 1,024; tracks 6 + 3; groups 3 + 1; 16 information tracks; platters 3 + 2     everything is protected
    set B   S = 2,048; tracks 4 + 0; groups 5 + 0;  9 information tracks; platters 1 + 0     nothing is; odd names live here

Run: python3 tools/test_read_platter.py
"""
from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import itertools
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from dataclasses import dataclass, field, replace

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import read_platter  # noqa: E402

from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: E402
from cryptography.hazmat.primitives.keywrap import aes_key_wrap  # noqa: E402

H = 16_384
CANTOR = "0001 ACCA 3C0E 163E C582 ED2E 914C 4012 6C98 10D8 6A72 B900 FDB8 FB34 FF38 991E"
ARCHIVE, MASTER = bytes(range(16)), bytes(range(100, 132))


# ------------------------------------------------------------------------------------------- the writer: arithmetic


def crc64(data: bytes) -> int:
    crc = (1 << 64) - 1
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ (1 << 64) - 1


def _crc_table() -> list[int]:
    reflected = int(f"{0xAD93D23594C93659:064b}"[::-1], 2)
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (reflected if crc & 1 else 0)
        table.append(crc)
    return table


CRC = _crc_table()


def times(a: int, b: int, polynomial: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a, b = a << 1, b >> 1
        if a.bit_length() == polynomial.bit_length():
            a ^= polynomial
    return product


def to_the(a: int, exponent: int, multiply) -> int:
    result = 1
    while exponent:
        if exponent & 1:
            result = multiply(result, a)
        a, exponent = multiply(a, a), exponent >> 1
    return result


def times8(a: int, b: int) -> int:
    return times(a, b, 0x11D)


BASIS = [int(element, 16) for element in CANTOR.split()]


def to_polynomial(v: int) -> int:
    return functools.reduce(int.__xor__, (b for j, b in enumerate(BASIS) if v >> j & 1), 0)


def _inverse_basis() -> list[int]:
    """The number of each power of x, by Gauss-Jordan elimination over GF(2)."""
    rows = [(b, 1 << j) for j, b in enumerate(BASIS)]
    for bit in range(16):
        pivot = next(i for i in range(bit, 16) if rows[i][0] >> bit & 1)
        rows[bit], rows[pivot] = rows[pivot], rows[bit]
        for i in range(16):
            if i != bit and rows[i][0] >> bit & 1:
                rows[i] = rows[i][0] ^ rows[bit][0], rows[i][1] ^ rows[bit][1]
    return [number for _, number in rows]


POWERS = _inverse_basis()


def times16(a: int, b: int) -> int:
    product = times(to_polynomial(a), to_polynomial(b), 0x1002D)
    return functools.reduce(int.__xor__, (p for i, p in enumerate(POWERS) if product >> i & 1), 0)


@functools.cache
def track_matrix(i: int, r: int) -> list[list[int]]:
    return [[to_the((i + row) ^ c, 254, times8) for c in range(i)] for row in range(r)]


@functools.cache
def pooled_matrix(i: int, r: int) -> list[list[int]]:
    m = 1
    while m < r:
        m *= 2
    d = functools.reduce(times16, range(1, m), 1)
    z = [functools.reduce(times16, ((m + c) ^ w for w in range(m))) for c in range(i)]  # z by its definition
    return [[times16(z[c], to_the(times16(d, (m + c) ^ row), 65_534, times16)) for c in range(i)] for row in range(r)]


@functools.cache
def table8(k: int) -> list[int]:
    return [times8(k, v) for v in range(256)]


@functools.cache
def table16(k: int) -> tuple[list[int], list[int]]:
    low = [functools.reduce(int.__xor__, (p for j, p in enumerate(products) if v >> j & 1), 0)
           for products in [[times16(k, 1 << j) for j in range(8)]] for v in range(256)]
    high = [functools.reduce(int.__xor__, (p for j, p in enumerate(products) if v >> j & 1), 0)
            for products in [[times16(k, 256 << j) for j in range(8)]] for v in range(256)]
    return low, high


def encode_track(information: list[bytes], r: int) -> list[bytes]:
    rows = []
    for factors in track_matrix(len(information), r):
        row = bytearray(len(information[0]))
        for k, payload in zip(factors, information):
            table = table8(k)
            for at, byte in enumerate(payload):
                row[at] ^= table[byte]
        rows.append(bytes(row))
    return rows


def encode_pooled(information: list[bytes], r: int) -> list[bytes]:
    length = len(information[0])
    split = [[(p[b + i], p[b + 32 + i]) for b in range(0, length, 64) for i in range(32)] for p in information]
    rows = []
    for factors in pooled_matrix(len(information), r) if r else ():
        symbols = [0] * (length // 2)
        for k, halves in zip(factors, split):
            low, high = table16(k)
            symbols = [s ^ low[a] ^ high[b] for s, (a, b) in zip(symbols, halves)]
        row = bytearray()
        for b in range(0, length // 2, 32):
            row += bytes(s & 255 for s in symbols[b : b + 32]) + bytes(s >> 8 for s in symbols[b : b + 32])
        rows.append(bytes(row))
    return rows


# ----------------------------------------------------------------------------------------- the writer: objects, platters


def cbor(item) -> bytes:
    def head(major: int, n: int) -> bytes:
        for short, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
            if n < 24:
                return bytes([major << 5 | n])
            if n < 1 << 8 * width:
                return bytes([major << 5 | short]) + n.to_bytes(width, "big")
        raise ValueError

    if isinstance(item, int):
        return head(0, item) if item >= 0 else head(1, -1 - item)
    if isinstance(item, bytes):
        return head(2, len(item)) + item
    if isinstance(item, str):
        return head(3, len(item.encode())) + item.encode()
    if isinstance(item, (list, tuple)):
        return head(4, len(item)) + b"".join(map(cbor, item))
    pairs = sorted((cbor(key), cbor(value)) for key, value in item.items())
    return head(5, len(pairs)) + b"".join(key + value for key, value in pairs)


@dataclass
class Thing:
    """One version of one object, as it is to be written."""

    name: bytes
    content: bytes = b""
    kind: int = 0
    number: int = 1
    mode: int | None = 0o640
    mtime: tuple[int, int] | None = (1_600_000_000, 123_456_789)
    key: bytes | None = None
    sha256: bytes | None = None
    version: bytes = b""
    attributes: dict[str, bytes] | None = None

    def __post_init__(self) -> None:
        seed = random.Random(repr((self.name, self.number)))
        self.version = self.version or (1_700_000_000_000 + self.number).to_bytes(6, "big") + seed.randbytes(10)

    def record(self) -> bytes:
        known = {"kind": self.kind, "name": self.name, "size": len(self.content), "created": 1_700_000_000_000, "later": [1, {"a": -5}]}
        known |= {"sha256": self.sha256 or hashlib.sha256(self.content).digest(), "version": self.number}
        known |= {"mode": self.mode} if self.mode is not None else {}
        known |= {"mtime": self.mtime} if self.mtime is not None else {}
        known |= {"attributes": self.attributes} if self.attributes is not None else {}
        if self.key is None:
            return cbor(known)
        return AESGCM(self.key).encrypt(b"\1\0\0\0" + bytes(8), cbor(known), b"fulgurite record v1" + self.version)

    def frames(self) -> list[bytes]:
        frames = []
        for f, at in enumerate(range(0, len(self.content), 65_536)):
            piece, number = self.content[at : at + 65_536], f.to_bytes(8, "big")
            context = b"fulgurite frame v1" + self.version
            if self.key is None:
                frames.append(piece + crc64(context + number + piece).to_bytes(8, "little") + bytes(8))
            else:
                frames.append(AESGCM(self.key).encrypt(bytes(4) + number, piece, context))
        return frames


@dataclass
class Space:
    """The content of one information platter while it fills."""

    stored: bytearray = field(default_factory=bytearray)
    entries: list[bytes] = field(default_factory=list)

    def shard(self, thing: Thing, index: int, start: int, stored: bytes) -> None:
        flags, whole = 0 if thing.key is None else 1, sum(map(len, thing.frames()))
        self.entry(thing.version, flags, index, whole, start, len(self.stored), len(stored), crc64(stored), thing.record())
        self.stored += stored

    def whole(self, thing: Thing) -> None:
        self.shard(thing, 0, 0, b"".join(thing.frames()))

    def entry(self, *elements) -> None:
        self.entries.append(cbor(elements))

    def tombstone(self, version: bytes) -> None:
        self.entry(version, 2, 0, 0, 0, 0, 0, 0, b"")

    def table(self) -> bytes:
        return b"FULGTABL" + struct.pack("<IIQ", 1, 0, len(self.entries)) + b"".join(self.entries)


@dataclass(frozen=True)
class Shape:
    s: int
    i_t: int
    r_t: int
    g_i: int
    g_r: int
    n: int
    i_p: int
    r_p: int

    @property
    def track_bytes(self) -> int:
        return (self.i_t + self.r_t) * (self.s + 64)

    def groups(self) -> list[tuple[list[int], int]]:
        """For each group: its information tracks, by information index, and how many redundancy tracks follow."""
        cut = [list(range(at, min(at + self.g_i, self.n))) for at in range(0, self.n, self.g_i)]
        return [(tracks, -(-len(tracks) * self.g_r // self.g_i)) for tracks in cut]

    @property
    def p(self) -> int:
        return sum(len(tracks) + r for tracks, r in self.groups())

    def offset(self, track: int, sector: int = 0) -> int:
        m = -(-self.p // 2)
        return H + (H if track >= m else 0) + track * self.track_bytes + sector * (self.s + 64)

    def headers(self) -> list[int]:
        return [0, H + -(-self.p // 2) * self.track_bytes, 2 * H + self.p * self.track_bytes]


def header_block(item: dict, version: int = 1) -> bytes:
    encoded = cbor(item)
    block = (b"FULGPLAT" + struct.pack("<II", version, len(encoded)) + encoded).ljust(H - 8, b"\0")
    return block + crc64(block).to_bytes(8, "little")


def write_set(shape: Shape, set_identifier: bytes, spaces: list[Space]) -> list[bytes]:
    seed = random.Random(set_identifier)
    identifiers = [seed.randbytes(16) for _ in range(shape.i_p + shape.r_p)]
    members, contents = [], []
    for identifier, space in zip(identifiers, spaces):
        table = space.table()
        members.append([identifier, len(space.stored), len(table), crc64(table)])
        content = bytes(space.stored) + table
        assert len(content) <= shape.n * shape.i_t * shape.s, "the test's objects do not fit"
        content = content.ljust(shape.n * shape.i_t * shape.s, b"\0")
        contents.append([content[at : at + shape.s] for at in range(0, len(content), shape.s)])
    members += [[identifier, 0, 0, 0] for identifier in identifiers[shape.i_p :]]
    redundant = [[] for _ in range(shape.r_p)]
    for t in range(shape.n):
        row = encode_pooled([p for c in contents for p in c[t * shape.i_t : (t + 1) * shape.i_t]], shape.r_p * shape.i_t)
        for j in range(shape.r_p):
            redundant[j] += row[j * shape.i_t : (j + 1) * shape.i_t]
    platters = []
    for position, payloads in enumerate(contents + redundant):
        geometry = {"sector_bytes": shape.s, "track_information": shape.i_t, "track_redundancy": shape.r_t}
        geometry |= {"group_information": shape.g_i, "group_redundancy": shape.g_r, "information_tracks": shape.n}
        header = {"set": set_identifier, "medium": "disk", "writer": "test", "archive": ARCHIVE, "members": members}
        header |= {"platter": identifiers[position], "written": 1_700_000_000, "geometry": geometry, "position": position}
        header |= {"set_information": shape.i_p, "set_redundancy": shape.r_p, "unknown": "to be ignored"}
        tracks: list[list[bytes]] = []
        for information, r in shape.groups():
            symbols = payloads[information[0] * shape.i_t : (information[-1] + 1) * shape.i_t]
            symbols = symbols + encode_pooled(symbols, r * shape.i_t)
            tracks += [symbols[at : at + shape.i_t] for at in range(0, len(symbols), shape.i_t)]
        stored = []
        for index, track in enumerate(tracks):
            out = b""
            for sector, payload in enumerate(track + encode_track(track, shape.r_t)):
                label = b"FULGSECT" + identifiers[position] + struct.pack("<IIII", index, sector, shape.s, 1) + bytes(16)
                out += payload + label + crc64(payload + label).to_bytes(8, "little")
            stored.append(out)
        m = -(-len(stored) // 2)
        block = header_block(header)
        platters.append(block + b"".join(stored[:m]) + block + b"".join(stored[m:]) + block)
    return platters


def exported_keys(things: list[Thing]) -> bytes:
    text = b"fulgurite-keys 1\narchive %s\nmaster %s\n" % (ARCHIVE.hex().encode(), MASTER.hex().encode())
    for thing in things:
        text += b"key %s %s\n" % (thing.version.hex().encode(), aes_key_wrap(MASTER, thing.key).hex().encode())
    return text + b"end %d %s\n" % (len(things), hashlib.sha256(text).hexdigest().encode())


def sealed_keys(text: bytes, passphrase: bytes) -> bytes:
    salt = bytes(range(16))
    key = hashlib.scrypt(passphrase, salt=salt, n=1 << 10, r=8, p=1, dklen=32)
    sealed = b"FULGKEYS" + struct.pack("<IBII", 1, 10, 8, 1) + salt
    frames = [text[at : at + 65_536] for at in range(0, len(text), 65_536)]
    for f, frame in enumerate(frames):
        last = b"\1" if f == len(frames) - 1 else b"\0"
        sealed += AESGCM(key).encrypt(b"\2\0\0\0" + f.to_bytes(8, "big"), frame, b"fulgurite keys v1" + last)
    return sealed


def gf_multiply(a: int, b: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a, b = a << 1 ^ (0x11D if a & 0x80 else 0), b >> 1
    return product


def gf_inverse(a: int) -> int:
    return next(b for b in range(1, 256) if gf_multiply(a, b) == 1)


def in_key_blocks(sealed: bytes) -> bytes:
    """A sealed export of version 1, whose frames are at most one section, in the blocks of version 2."""
    head, frames = b"FULGKEYS" + struct.pack("<I", 2) + sealed[12:37], sealed[37:]
    n = -(-len(frames) // 960)
    g = -(-n // 160)
    k = -(-n // g)
    r = 8 + -(-7 * k // 20)
    payloads = [frames[at : at + 960].ljust(960, b"\0") for at in range(0, len(frames), 960)]
    for t in range(r * g):
        group, row = (n + t) % g, t // g
        total = bytearray(960)
        for c in range(k):
            number = c * g + group
            factor = gf_inverse((k + row) ^ c)
            products = bytes(gf_multiply(factor, x) for x in range(256))
            if number < n:
                total = bytearray(a ^ b for a, b in zip(total, payloads[number].translate(products)))
        payloads.append(bytes(total))
    out = b""
    for number, payload in enumerate(payloads):
        block = head + bytes(3) + struct.pack("<IIII", 0, number, n, len(frames)) + payload
        out += block + crc64(block).to_bytes(8, "little")
    return out


# ------------------------------------------------------------------------------------------------ what is on the platters

A = Shape(s=1_024, i_t=6, r_t=3, g_i=3, g_r=1, n=16, i_p=3, r_p=2)
B = Shape(s=2_048, i_t=4, r_t=0, g_i=5, g_r=0, n=9, i_p=1, r_p=0)


def as_long_as(space: Space) -> Shape:
    """B with as many tracks as hold this."""
    return replace(B, n=-(-(len(space.stored) + len(space.table())) // (B.i_t * B.s)))


def noise(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


PLAIN = [
    Thing(b"notes/today.txt", b"the older text", number=1),
    Thing(b"notes/today.txt", b"the newer text, a little longer", number=2, mode=0o600),
    Thing(b"photos/tower.raw", noise(1, 150_000), mode=None, mtime=(-86_400, 5)),
    Thing(b"photos/small.raw", noise(2, 20_001)),
    Thing(b"empty", b""),
    Thing(b"odd \xff\xfe\x1b[2J name", b"not UTF-8", mtime=None),
    Thing(b"folder/inside", kind=2, mode=0o750),
    Thing(b"shortcut", b"notes/today.txt", kind=1),
]
OLDER, NEWER, TOWER, SMALL, EMPTY, ODD, FOLDER, SHORTCUT = PLAIN
LETTER = Thing(b"sealed/letter", noise(3, 70_000), key=noise(4, 32))
SEALED_LINK = Thing(b"sealed/link", b"letter", kind=1, key=noise(5, 32))
KEYLESS = Thing(b"sealed/key is destroyed", b"gone for ever", key=noise(6, 32))
DELETED = Thing(b"deleted", b"must not come back")
SEALED_DELETED = Thing(b"deleted too", b"must not come back either", key=noise(7, 32))
ESCAPES = [Thing(name, b"evil") for name in (b"../evil", b"/tmp/evil-absolute", b"a/../../evil", b"a//b", b"./c", b"d/", b"trap/evil")]
FORGED = Thing(b"forged", b"not what the record says", sha256=bytes(32))


def fill_a() -> list[Space]:
    spaces = [Space(), Space(), Space()]
    start = 0
    for index, frame in enumerate(TOWER.frames()):
        spaces[index].shard(TOWER, index, start, frame)
        start += len(frame)
    for index, thing in [(0, OLDER), (1, NEWER), (0, SMALL), (0, EMPTY), (1, ODD), (1, FOLDER), (1, SHORTCUT), (0, DELETED)]:
        spaces[index].whole(thing)
    for index, thing in [(2, LETTER), (1, SEALED_LINK), (1, KEYLESS), (1, SEALED_DELETED)]:
        spaces[index].whole(thing)
    spaces[2].tombstone(DELETED.version)
    spaces[0].tombstone(SEALED_DELETED.version)
    return spaces


def fill_b() -> list[Space]:
    space = Space()
    for thing in [*ESCAPES, FORGED]:
        space.whole(thing)
    space.whole(Thing(b"trap", b"/tmp", kind=1))
    space.whole(Thing(b"fine", b"a good one among the bad"))
    return [space]


@functools.cache
def set_a() -> tuple[bytes, ...]:
    return tuple(write_set(A, b"A" * 16, fill_a()))


@functools.cache
def set_b() -> tuple[bytes, ...]:
    return tuple(write_set(B, b"B" * 16, fill_b()))


# ---------------------------------------------------------------------------------------------------------------- glass


@dataclass(frozen=True)
class GlassShape:
    """Glass for platters of a shape, and how its file is made, as docs/format.md has it."""

    rows: int = 64
    columns: int = 160
    retardances: tuple[float, ...] = (0.25, 0.5)
    p: int = 14

    @property
    def voxels(self) -> int:
        return self.rows * self.columns

    @property
    def m(self) -> int:
        return {1: 3, 2: 4, 4: 5}[len(self.retardances)]

    @property
    def packed_bytes(self) -> int:
        return -(-self.voxels * self.m // 8)

    @property
    def h(self) -> int:
        return -(-262_144 // self.voxels)

    def head(self, shape: Shape, platter: bytes, version: int = 1, coding: bytes = b"two azimuths") -> bytes:
        head = struct.pack("<8sII16sIIII", b"FULGGLAS", version, 0, platter, self.rows, self.columns, len(self.retardances), self.p)
        head += struct.pack("<IIII", shape.s, shape.i_t + shape.r_t, shape.p, 0)
        head += struct.pack(f"<{len(self.retardances)}d", *self.retardances).ljust(32, b"\0") + coding.ljust(16, b"\0")
        head = (head + struct.pack("<Q7d", 5, *[0.01] * 7)).ljust(4_088, b"\0")
        return head + crc64(head).to_bytes(8, "little")

    def pack(self, symbols: list[int]) -> bytes:
        text = "".join(format(symbol, f"0{self.m}b")[::-1] for symbol in symbols)
        return int(text[::-1], 2).to_bytes(self.packed_bytes, "little")

    def header_sectors(self, block: bytes) -> list[bytes]:
        used = len(block[:-8].rstrip(b"\0"))
        part_bytes = -(-(used + 8) // 1_024) * 1_024
        part = block[: part_bytes - 8] + block[-8:]
        bits = [byte >> bit & 1 for byte in part for bit in range(8)]
        key = [word >> bit & 1 for word in key_words(0, self.h * self.voxels // 64 + 1) for bit in range(64)]
        # Levels 0 and 4 of the azimuth, the largest retardance, in Gray code.
        largest = {1: 0b00_000, 2: 0b01_000, 4: 0b10_000}[len(self.retardances)]
        voxels = [largest | (0b110 if bits[v % len(bits)] ^ key[v] else 0) for v in range(self.h * self.voxels)]
        return [self.pack(voxels[at : at + self.voxels]) for at in range(0, len(voxels), self.voxels)]

    def sector(self, platter: bytes, number: int, stored: bytes) -> bytes:
        n = self.voxels // -(-40_960 // self.m)
        address = platter + number.to_bytes(4, "little")
        part_bytes = (80 - self.p) * 64
        plain = stored.ljust(n * part_bytes - 8, b"\0")
        plain += crc64(address + plain).to_bytes(8, "little")
        key = b"".join(word.to_bytes(8, "little") for word in key_words(crc64(address), len(plain) // 8))
        scrambled = bytes(a ^ b for a, b in zip(plain, key))
        symbols, parity = [0] * self.voxels, random.Random(number)
        for codeword in range(n):
            part = scrambled[codeword * part_bytes : (codeword + 1) * part_bytes] + parity.randbytes(self.p * 64)
            text = "".join(format(byte, "08b")[::-1] for byte in part)
            for at in range(0, len(text), self.m):
                symbols[codeword + n * (at // self.m)] = int(text[at : at + self.m][::-1], 2)
        return self.pack(symbols)

    def file(self, shape: Shape, image: bytes) -> bytes:
        item, _ = read_platter.cbor(image[16:H])
        block = header_block(item | {"medium": "glass"})
        platter, sectors = item["platter"], []
        for track in range(shape.p):
            if track == -(-shape.p // 2):
                sectors += self.header_sectors(block)
            sectors = sectors or self.header_sectors(block)
            for index in range(shape.i_t + shape.r_t):
                start = shape.offset(track, index)
                sectors.append(self.sector(platter, len(sectors), image[start : start + shape.s + 64]))
        if shape.p == 1:
            sectors += self.header_sectors(block)
        sectors += self.header_sectors(block)
        head = self.head(shape, platter)
        return head + b"".join(sectors) + head

    def place(self, shape: Shape, track: int, sector: int) -> int:
        headers = 1 if track < -(-shape.p // 2) else 2
        return 4_096 + (headers * self.h + track * (shape.i_t + shape.r_t) + sector) * self.packed_bytes


def key_words(seed: int, count: int) -> list[int]:
    words, mask = [], (1 << 64) - 1
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        words.append(z ^ z >> 31)
    return words


OF_GLASS = Shape(s=1_024, i_t=4, r_t=2, g_i=2, g_r=1, n=3, i_p=1, r_p=1)
DESK = GlassShape()


@functools.cache
def small_set() -> tuple[bytes, ...]:
    space = Space()
    space.whole(Thing(b"on glass", noise(31, 7_000)))
    space.whole(Thing(b"also", b"short"))
    return tuple(write_set(OF_GLASS, b"G" * 16, [space]))


@functools.cache
def small_glass(glass: GlassShape = DESK, position: int = 0) -> bytes:
    return glass.file(OF_GLASS, small_set()[position])


# ---------------------------------------------------------------------------------------------------------------- tests


class Arithmetic(unittest.TestCase):
    def test_the_checksum_has_the_check_value_of_the_document(self) -> None:
        self.assertEqual(read_platter.crc64(b"123456789"), 0xAE8B14860A799888)
        self.assertEqual(crc64(b"123456789"), 0xAE8B14860A799888)

    def test_the_folding_sum_is_true_of_the_polynomial(self) -> None:
        def power(n: int) -> int:
            return to_the(2, n, lambda a, b: times(a, b, 1 << 64 | 0xAD93D23594C93659))

        top = max(read_platter.CRC_FOLD)
        self.assertEqual(functools.reduce(int.__xor__, (power(top - d) for d in read_platter.CRC_FOLD)), power(top))
        self.assertLess(read_platter.CRC_FOLD_BITS, min(read_platter.CRC_FOLD))

    def test_the_folded_checksum_is_the_bytewise_one_at_every_kind_of_length(self) -> None:
        for length in (*range(0, 20), *range(400, 1_200, 7), 1_080, 2_104, 65_592, 100_003):
            data = noise(length, length)
            self.assertEqual(read_platter.crc64(data), crc64(data), length)

    def test_products_in_both_fields_are_those_of_shifting_and_adding(self) -> None:
        chance = random.Random(1)
        small, large = read_platter.gf256(), read_platter.gf65536()
        for _ in range(2_000):
            a, b = chance.randrange(256), chance.randrange(256)
            self.assertEqual(small.multiply(a, b), times8(a, b))
            a, b = chance.randrange(65_536), chance.randrange(65_536)
            self.assertEqual(large.multiply(a, b), times16(a, b))

    def test_one_redundancy_symbol_of_the_pooled_code_is_the_sum_of_all(self) -> None:
        self.assertEqual(pooled_matrix(9, 1), [[1] * 9])

    def test_as_many_symbols_as_there_is_redundancy_can_be_lost_and_any(self) -> None:
        chance = random.Random(2)
        codes = [(encode_track, read_platter.track_code, i, r) for i, r in ((1, 1), (6, 3), (20, 7))]
        codes += [(encode_pooled, read_platter.pooled_code, i, r) for i, r in ((1, 1), (5, 1), (7, 3), (18, 12), (20, 8), (4, 9))]
        for encode, code, i, r in codes:
            information = [chance.randbytes(128) for _ in range(i)]
            redundancy = encode(information, r)
            for _ in range(6):
                count = chance.randint(1, min(i, r))
                lost, rows = chance.sample(range(i), count), chance.sample(range(r), count)
                solver = read_platter.Solver(code(i, r), 128, lost, rows)
                for c in set(range(i)) - set(lost):
                    solver.add_information(c, information[c])
                for row in rows:
                    solver.add_redundancy(row, redundancy[row])
                self.assertEqual(solver.solve(), [information[c] for c in lost], (i, r, lost, rows))

    def test_a_symbol_that_never_came_gives_nothing_rather_than_something_wrong(self) -> None:
        solver = read_platter.Solver(read_platter.track_code(3, 1), 64, [0], [0])
        solver.add_information(1, bytes(64))
        solver.add_redundancy(0, bytes(64))
        self.assertIsNone(solver.solve())

    def test_cbor_is_read_as_the_examples_of_its_standard_say(self) -> None:
        for text, value in (("1903e8", 1000), ("3863", -100), ("4401020304", b"\1\2\3\4"), ("62c3bc", "ü"), ("826161a161626163", ["a", {"b": "c"}]),
                            ("c11a514b67b0", 1363896240), ("f5", True), ("fb3ff199999999999a", None)):
            self.assertEqual(read_platter.cbor(bytes.fromhex(text)), (value, len(text) // 2))
        for broken in ("", "19", "44010203", "5f", "8201", "61ff"):
            with self.assertRaises(ValueError):
                read_platter.cbor(bytes.fromhex(broken))


class Places(unittest.TestCase):
    def test_tracks_sectors_and_headers_lie_where_the_document_says(self) -> None:
        chance = random.Random(3)
        for _ in range(200):
            g_i = chance.randint(1, 9)
            shape = Shape(1_024, chance.randint(1, 9), chance.randint(0, 4), g_i, chance.randint(0, g_i), chance.randint(1, 40), 1, 0)
            g = read_platter.Geometry(shape.s, shape.i_t, shape.r_t, shape.g_i, shape.g_r, shape.n)
            self.assertEqual(g.tracks, shape.p)
            self.assertEqual(list(g.header_offsets), shape.headers())
            self.assertEqual(g.file_bytes, shape.headers()[2] + H)
            physical, redundancy = 0, []
            for number, (information, r) in enumerate(shape.groups()):
                for t in information:
                    self.assertEqual(g.physical(t), physical)
                    physical += 1
                self.assertEqual(list(g.group(number)[1]), list(range(physical, physical + r)))
                physical += r
            for track in range(shape.p):
                self.assertEqual(g.sector_offset(track, 0), shape.offset(track))

    def test_the_last_group_has_its_share_of_redundancy_rounded_up(self) -> None:
        g = read_platter.Geometry(1_024, 2, 1, 4, 2, 9)  # groups of 4 + 2, 4 + 2 and 1 + 1
        self.assertEqual((g.tracks, g.physical(8)), (14, 12))
        self.assertEqual(g.group(2), (range(12, 13), range(13, 14)))
        self.assertEqual(g.header_offsets, (0, H + 7 * 3 * 1_088, 2 * H + 14 * 3 * 1_088))


class PlatterTest(unittest.TestCase):
    """Platters as files in a directory of the test's own, to damage and to read."""

    def setUp(self) -> None:
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.images = [bytearray(image) for image in set_a()]
        self.chance = random.Random(self.id())
        self.outputs = itertools.count()
        self.keys = self.file("keys", exported_keys([LETTER, SEALED_LINK, SEALED_DELETED]))

    def file(self, name: str, content: bytes) -> str:
        path = os.path.join(self.directory, name)
        with open(path, "wb") as out:
            out.write(content)
        return path

    def platters(self, positions=range(5)) -> list[str]:
        paths = [self.file(f"platter-{position}", self.images[position]) for position in positions]
        self.chance.shuffle(paths)
        return paths

    def spoil(self, position: int, track: int, sectors=range(9)) -> None:
        for sector in sectors:
            self.images[position][A.offset(track, sector) + self.chance.randrange(A.s + 64 - 8)] ^= self.chance.randint(1, 255)

    def run_reader(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = read_platter.main(list(arguments))
        return status, out.getvalue(), err.getvalue()

    def extract(self, paths: list[str], *more: str) -> tuple[int, str, str]:
        output = os.path.join(self.directory, f"out-{next(self.outputs)}")
        status, _, err = self.run_reader("get", *paths, "-o", output, *more)
        return status, output, err

    def assert_there(self, output: str, thing: Thing, name: bytes | None = None) -> None:
        path = os.path.join(os.fsencode(output), thing.name if name is None else name)
        if thing.kind == 0:
            with open(path, "rb") as file:
                self.assertEqual(file.read(), thing.content, thing.name)
        elif thing.kind == 1:
            self.assertEqual(os.readlink(path), thing.content)
        else:
            self.assertTrue(os.path.isdir(path))
        found = os.lstat(path)
        if thing.mtime is not None:
            self.assertEqual(found.st_mtime_ns, thing.mtime[0] * 1_000_000_000 + thing.mtime[1], thing.name)
        if thing.mode is not None and thing.kind != 1:
            self.assertEqual(found.st_mode & 0o7777, thing.mode, thing.name)

    def names_in(self, output: str) -> set[bytes]:
        root = os.fsencode(output)
        below = [os.path.join(at, name) for at, directories, names in os.walk(root) for name in directories + names]
        return {os.path.relpath(path, root) for path in below if os.path.islink(path) or not os.path.isdir(path)}

    def assert_all_back(self, paths: list[str]) -> str:
        """Every file, and nothing else. Gives back what the reader reported."""
        status, output, err = self.extract(paths, "--keys", self.keys)
        self.assertEqual(status, 0, err)
        expected = [thing for thing in (*PLAIN, LETTER, SEALED_LINK) if thing is not OLDER]
        for thing in expected:
            self.assert_there(output, thing)
        self.assertEqual(self.names_in(output), {thing.name for thing in expected if thing.kind != 2})
        return err


class Damage(PlatterTest):
    def test_undamaged_platters_give_every_file_back(self) -> None:
        err = self.assert_all_back(self.platters())
        self.assertNotIn("rebuilt", err)
        self.assertIn("1 sealed versions have no key", err)

    def test_three_lost_sectors_in_every_track_are_repaired_by_the_track_code(self) -> None:
        for position in range(5):
            for track in range(A.p):
                self.spoil(position, track, self.chance.sample(range(9), 3))
        err = self.assert_all_back(self.platters())
        self.assertIn("by the track code", err)
        self.assertNotIn("group", err)

    def test_one_whole_track_of_every_group_is_repaired_by_the_group_code_alone(self) -> None:
        for number, (information, r) in enumerate(A.groups()):
            self.spoil(0, number * 4 + self.chance.randrange(len(information) + r))
        status, output, err = self.extract(self.platters([0]), "--name", "photos/small.raw", "notes", "empty")
        self.assertEqual(status, 0, err)
        for thing in (SMALL, OLDER, EMPTY):
            self.assert_there(output, thing)
        self.assertRegex(err, "by the large group code")
        self.assertNotIn("by the set code", err)

    def test_lost_groups_on_two_platters_are_repaired_by_the_set_code(self) -> None:
        for position in (0, 4):
            for track in range(8):
                self.spoil(position, track)
        self.assertIn("by the set code", self.assert_all_back(self.platters()))

    def test_any_three_of_five_platters_restore_every_file(self) -> None:
        for positions in itertools.combinations(range(5), 3):
            with self.subTest(positions=positions):
                self.assert_all_back(self.platters(positions))

    def test_a_missing_platter_and_scattered_damage_of_every_kind_are_repaired_together(self) -> None:
        self.spoil(0, 2), self.spoil(1, 5), self.spoil(2, 7), self.spoil(2, 3)
        for position in (0, 2, 3, 4):
            for track in range(A.p):
                self.spoil(position, track, self.chance.sample(range(9), 2))
        err = self.assert_all_back(self.platters([0, 2, 3, 4]))
        self.assertRegex(err, r"platter 1 \([0-9a-f]{32}\): not here")

    def test_the_set_code_takes_the_help_of_the_other_platters_groups(self) -> None:
        # Of track 8 nothing is left on both redundancy platters until their large groups gave it back.
        for position in (3, 4):
            self.spoil(position, 8)
        err = self.assert_all_back(self.platters([0, 2, 3, 4]))
        self.assertIn("by the large group code", err)

    def test_headers_lost_in_any_two_places_of_three_change_nothing(self) -> None:
        for lost in itertools.combinations(A.headers(), 2):
            with self.subTest(lost=lost):
                self.images = [bytearray(image) for image in set_a()]
                for image in self.images:
                    for offset in lost:
                        image[offset + 100] ^= 1
                self.assert_all_back(self.platters())

    def test_a_platter_without_any_header_is_known_by_its_labels_and_its_set(self) -> None:
        for offset in A.headers():
            self.images[1][offset : offset + H] = bytes(H)
        self.images[1][A.offset(0) : A.offset(1)] = bytes(A.track_bytes)
        self.assert_all_back(self.platters([1, 0, 3]))
        status, _, err = self.run_reader("inspect", self.platters([1])[0])
        self.assertEqual(status, 2)
        self.assertIn("give another platter of its set", err)

    def test_files_cut_short_give_all_back_with_the_others(self) -> None:
        del self.images[0][A.offset(9, 4) + 17 :]
        del self.images[2][H // 2 :]
        self.assert_all_back(self.platters())

    def test_sectors_that_swapped_places_are_lost_there_and_found_where_they_are(self) -> None:
        image = self.images[0]
        stride = A.s + 64
        for track in range(0, A.p, 2):
            for sector in range(5):
                here, there = A.offset(track, sector), A.offset((track + 11) % A.p, sector)
                image[here : here + stride], image[there : there + stride] = image[there : there + stride], image[here : here + stride]
        status, output, err = self.extract(self.platters([0]), "--name", "photos/small.raw")
        self.assertEqual(status, 0, err)
        self.assert_there(output, SMALL)

    def test_a_file_whose_bytes_all_moved_is_read_by_its_labels(self) -> None:
        self.images[0][:0] = noise(9, 777)
        status, _, err = self.extract(self.platters([0]))
        self.assertEqual(status, 2)  # its headers are not where they say
        self.assertIn("no copy of the header is good", err)
        self.assert_all_back(self.platters([0, 3, 4]))
        del self.images[0][:40_000]
        self.assert_all_back(self.platters([0, 1, 2, 4]))

    def test_two_damaged_copies_of_one_platter_make_a_good_one(self) -> None:
        other = bytearray(self.images[0])
        for track in range(A.p):
            self.spoil(0, track, range(0, 5))
            for sector in range(5, 9):
                other[A.offset(track, sector)] ^= 1
        paths = [*self.platters([0]), self.file("the same again", other)]
        status, output, err = self.extract(paths, "--name", "photos/small.raw")
        self.assertEqual(status, 0, err)
        self.assert_there(output, SMALL)

    def test_random_damage_within_the_promise_is_always_repaired(self) -> None:
        for _ in range(4):
            self.images = [bytearray(image) for image in set_a()]
            missing = self.chance.randrange(5)
            broken = (missing + self.chance.randint(1, 4)) % 5
            for track in self.chance.sample(range(A.p), 12):
                self.spoil(broken, track)
            for position in set(range(5)) - {broken}:
                for track in range(A.p):
                    self.spoil(position, track, self.chance.sample(range(9), self.chance.randint(0, 3)))
            self.assert_all_back(self.platters(set(range(5)) - {missing}))


class TooMuch(PlatterTest):
    def test_one_platter_alone_gives_what_is_whole_on_it_and_names_the_rest(self) -> None:
        status, output, err = self.extract(self.platters([0]))
        self.assertEqual(status, 1)
        self.assertEqual(self.names_in(output), {OLDER.name, SMALL.name, EMPTY.name, DELETED.name})
        self.assertEqual([line for line in err.splitlines() if "ot written" in line],
                         ["photos/tower.raw: content bytes from 65536 on are on no platter at hand; not written."])

    def test_one_lost_symbol_too_many_names_exactly_the_lost_file(self) -> None:
        # Track 8 lies within the one frame of `tower` on platter 0, and its group and two other platters do not help.
        for track in (8, 9):
            self.spoil(0, track, range(4))
        for position in (3, 4):
            for track in (8, 9, 10, 11):
                self.spoil(position, track)
        status, output, err = self.extract(self.platters(), "--keys", self.keys)
        self.assertEqual(status, 1)
        lost = [line.split(":")[0] for line in err.splitlines() if "Not written" in line]
        self.assertEqual(lost, ["photos/tower.raw"])
        everything = {t.name for t in (*PLAIN, LETTER, SEALED_LINK) if t.kind != 2}
        self.assertEqual(self.names_in(output), everything - {TOWER.name})
        for thing in (NEWER, SMALL, EMPTY, ODD, LETTER):
            self.assert_there(output, thing)

    def test_three_missing_platters_of_five_give_the_files_of_those_at_hand(self) -> None:
        status, output, err = self.extract(self.platters([1, 3]), "--keys", self.keys)
        self.assertEqual(status, 1)
        # SEALED_DELETED is among them: its tombstone lies on a platter that is not here, and its key was not destroyed.
        there = {t.name for t in (NEWER, ODD, SHORTCUT, SEALED_LINK, SEALED_DELETED)}
        self.assertEqual(self.names_in(output), there)
        self.assertEqual([line.split(":")[0] for line in err.splitlines() if "ot written" in line], ["photos/tower.raw"])

    def test_a_lost_file_table_is_named(self) -> None:
        image = bytearray(set_b()[0])
        place = len(fill_b()[0].stored)
        image[B.offset(place // (4 * B.s), place // B.s % 4) + 5] ^= 1
        status, output, err = self.extract([self.file("b", image)])
        self.assertEqual(status, 1)
        self.assertRegex(err, r"The file table of platter 0 \([0-9a-f]{32}\) is lost")
        self.assertEqual(self.names_in(output), set())

    def test_bytes_that_check_but_are_not_what_the_record_says_are_not_written(self) -> None:
        status, output, err = self.extract([self.file("b", set_b()[0])], "--name", "forged", "fine")
        self.assertEqual(status, 1)
        self.assertIn("forged: every frame checks, but the SHA-256 of the whole is wrong", err)
        self.assertEqual(self.names_in(output), {b"fine"})

    def test_a_frame_with_a_wrong_tag_is_not_written(self) -> None:
        space = Space()
        thing = Thing(b"changed", b"some bytes")
        stored = bytearray(b"".join(thing.frames()))
        stored[0] ^= 1
        space.shard(thing, 0, 0, bytes(stored))
        (image,) = write_set(replace(B, n=1), b"C" * 16, [space])
        status, output, err = self.extract([self.file("c", image)])
        self.assertEqual((status, self.names_in(output)), (1, set()))
        self.assertIn("the tag of frame 0 is wrong", err)


    def test_a_table_of_good_sectors_whose_checksum_is_wrong_is_not_believed(self) -> None:
        image = bytearray(set_b()[0])
        item, _ = read_platter.cbor(bytes(image[16:H]))
        item["members"][0][3] ^= 1
        image[:H] = header_block(item)
        status, output, err = self.extract([self.file("b", image)])
        self.assertEqual((status, self.names_in(output)), (1, set()))
        self.assertIn("does not check", err)


class Malformed(PlatterTest):
    """Right checksums, wrong content."""

    def read(self, space: Space, *more: str) -> tuple[int, set[bytes], str]:
        (image,) = write_set(as_long_as(space), b"C" * 16, [space])
        status, output, err = self.extract([self.file("c", image)], *more)
        return status, self.names_in(output), err

    def test_a_table_with_an_entry_that_is_not_as_the_format_says_is_refused(self) -> None:
        thing = Thing(b"good", b"content")
        stored = b"".join(thing.frames())
        good = [thing.version, 0, 0, len(stored), 0, 0, len(stored), crc64(stored), thing.record()]
        changes = [{0: b"short"}, {1: 2}, {1: 3}, {1: 4}, {2: -1}, {2: b""}, {3: len(stored) - 1}, {4: 1}, {4: 65_552}, {3: 1 << 20, 4: 65_552}, {8: b""}, {8: 0}, {8: bytes((1 << 20) + 1)}]
        wrong = [[change.get(i, element) for i, element in enumerate(good)] for change in changes]
        wrong += [good[:8], [*good, 0], [thing.version, 2, 0, 0, 0, 0, 0, 1, b""], [thing.version, 2, 0, 0, 0, 0, 0, 0, b"x"], [thing.version, 3, 0, 0, 0, 0, 0, 0, b""]]
        shape = replace(B, n=140)
        for entry in [good, *wrong]:
            space = Space(stored=bytearray(stored))
            space.entry(*entry)
            large = len(space.entries[0]) > 10_000
            (image,) = write_set(shape if large else replace(B, n=1), b"C" * 16, [space])
            status, output, err = self.extract([self.file("c", image)])
            if entry is good:
                self.assertEqual((status, self.names_in(output)), (0, {b"good"}), err)
            else:
                self.assertEqual((status, self.names_in(output)), (1, set()), entry)
                self.assertIn("is not as the format says", err)

    def test_bytes_behind_the_last_entry_are_refused(self) -> None:
        space = Space()
        space.whole(Thing(b"good"))
        space.entries[0] += b"\0"
        self.assertIn("is not as the format says", self.read(space)[2])

    def test_a_record_that_lacks_a_key_or_has_a_wrong_one_is_named_and_the_others_are_read(self) -> None:
        record, _ = read_platter.cbor(Thing(b"bad", b"content").record())
        wrong = [{k: v for k, v in record.items() if k != key} for key in ("kind", "name", "size", "sha256", "created", "version")]
        wrong += [record | change for change in (
            {"kind": 4}, {"kind": 3}, {"kind": 2}, {"kind": -1}, {"attributes": {}}, {"attributes": []}, {"attributes": {"a": "text"}},
            {"attributes": {b"a": b""}}, {"attributes": {"": b""}}, {"attributes": {"é" * 128: b""}}, {"attributes": {"a": bytes(65_536)}},
            {"attributes": {str(n): b"" for n in range(257)}},
            {"name": b""}, {"name": "text"}, {"size": 8}, {"sha256": bytes(31)}, {"created": -1}, {"version": 0},
            {"version": b""}, {"mode": -1}, {"mode": 0o10000}, {"mtime": [0]}, {"mtime": [0, 0, 0]}, {"mtime": [0, -1]}, {"mtime": [0, 1_000_000_000]}, {"mtime": 0})]
        space = Space()
        for n, item in enumerate([record, *wrong]):
            thing = Thing(b"bad", b"content", version=n.to_bytes(16, "big"))
            stored = b"".join(thing.frames())
            space.entry(thing.version, 0, 0, len(stored), 0, len(space.stored), len(stored), crc64(stored), cbor(item))
            space.stored += stored
        status, names, err = self.read(space)
        self.assertEqual((status, names), (1, {b"bad"}))
        self.assertEqual(err.count("its record is not as the format says"), len(wrong))

    def test_shards_of_one_version_that_contradict_each_other_are_not_joined(self) -> None:
        space = Space()
        thing = Thing(b"contradiction", b"content")
        space.whole(thing)
        space.whole(replace(thing, mode=0o777))
        status, names, err = self.read(space)
        self.assertEqual((status, names), (1, set()))
        self.assertIn("contradict", err)

    def test_the_rest_of_an_object_may_lie_on_another_set(self) -> None:
        thing = Thing(b"over two sets", noise(8, 100_000))
        first, second = thing.frames()
        spaces = [Space(), Space()]
        spaces[0].shard(thing, 0, 0, first)
        spaces[1].shard(thing, 1, len(first), second)
        paths = [self.file(str(n), write_set(B, bytes([n]) * 16, [space])[0]) for n, space in enumerate(spaces)]
        status, output, err = self.extract(paths)
        self.assertEqual(status, 0, err)
        self.assert_there(output, thing)
        status, _, err = self.extract(paths[:1])
        self.assertEqual(status, 1)
        self.assertIn("content bytes from 65536 on are on no platter at hand", err)


class Extracting(PlatterTest):
    def test_no_name_leads_out_of_the_output_directory(self) -> None:
        trap = os.path.join(self.directory, "elsewhere")
        os.mkdir(trap)
        output = os.path.join(self.directory, "out")
        os.mkdir(output)
        os.symlink(trap, os.path.join(output, "trap"))
        status, _, err = self.run_reader("get", self.file("b", set_b()[0]), "-o", output)
        self.assertEqual(status, 1)
        self.assertEqual(os.listdir(trap), [])
        self.assertEqual(self.names_in(output), {b"fine", b"trap"})
        self.assertEqual(sorted(os.listdir(self.directory)), ["b", "elsewhere", "keys", "out"])
        for thing in ESCAPES:
            self.assertIn(f"{read_platter.shown_name(thing.name)}: ", err)

    def test_a_link_that_is_extracted_is_never_written_through(self) -> None:
        status, output, err = self.extract([self.file("b", set_b()[0])])
        self.assertEqual(status, 1)
        self.assertFalse(os.path.exists("/tmp/evil"))
        self.assert_there(output, Thing(b"trap/evil", b"evil"))  # a directory of its own; the link then has no place
        self.assertIn("trap: ", err)

    def test_all_versions_come_under_names_of_their_own(self) -> None:
        status, output, err = self.extract(self.platters(), "--all-versions", "--name", "notes")
        self.assertEqual(status, 0, err)
        self.assert_there(output, NEWER)
        self.assert_there(output, OLDER, b"notes/today.txt.~1~")

    def test_an_older_version_never_replaces_an_object_of_its_very_name(self) -> None:
        space = Space()
        for thing in (Thing(b"a", b"first"), Thing(b"a", b"second", number=2), Thing(b"a.~1~", b"another object")):
            space.whole(thing)
        (image,) = write_set(replace(B, n=1), b"D" * 16, [space])
        status, output, err = self.extract([self.file("d", image)], "--all-versions")
        self.assertEqual(status, 1)
        self.assertEqual(self.names_in(output), {b"a", b"a.~1~"})
        self.assertIn("a.~1~: another version or object was written under this name", err)

    def test_nothing_is_extracted_under_a_deleted_name_and_its_earlier_versions_can_be_had(self) -> None:
        space = Space()
        earlier, back, kept = Thing(b"gone", b"first"), Thing(b"back", b"third", number=3), Thing(b"kept/file", b"kept")
        for thing in (earlier, Thing(b"gone", kind=3, number=2), Thing(b"back", kind=3, number=2), back, kept, Thing(b"kept", kind=3, key=noise(9, 32))):
            space.whole(thing)
        (image,) = write_set(replace(B, n=1), b"E" * 16, [space])
        path = self.file("e", image)
        status, output, err = self.extract([path])
        self.assertEqual((status, self.names_in(output)), (0, {b"back", b"kept/file"}), err)
        status, output, err = self.extract([path], "--all-versions")
        self.assertEqual((status, self.names_in(output)), (0, {b"back", b"kept/file", b"gone.~1~"}), err)
        self.assert_there(output, earlier, b"gone.~1~")
        status, output, err = self.extract([path], "--name", "gone", "kept")
        self.assertEqual((status, self.names_in(output)), (1, {b"kept/file"}))
        self.assertIn("gone: it was deleted; --all-versions extracts earlier versions.", err)
        self.assertNotIn("kept: ", err)
        status, out, _ = self.run_reader("ls", path)
        self.assertEqual((status, sum(" gone v2 " in line for line in out.splitlines())), (0, 2), out)

    def test_names_that_are_not_utf_8_can_be_asked_for(self) -> None:
        status, output, err = self.extract(self.platters([0, 1, 2]), "--name", os.fsdecode(ODD.name))
        self.assertEqual(status, 0, err)
        self.assertEqual(self.names_in(output), {ODD.name})
        self.assertNotIn("\x1b", err)

    def test_a_name_that_is_on_no_platter_is_said_to_be(self) -> None:
        status, _, err = self.extract(self.platters(), "--name", "nothing")
        self.assertEqual(status, 1)
        self.assertIn("nothing: no such name", err)

    def test_extracting_twice_replaces_files_by_the_same(self) -> None:
        output = os.path.join(self.directory, "twice")
        for _ in range(2):
            status, _, err = self.run_reader("get", *self.platters(), "-o", output)
            self.assertEqual(status, 0, err)
        self.assert_there(output, NEWER)
        self.assert_there(output, SHORTCUT)


class KeyFiles(PlatterTest):
    def test_without_keys_sealed_objects_are_left_out_and_counted(self) -> None:
        status, output, err = self.extract(self.platters())
        self.assertEqual(status, 0, err)
        self.assertEqual(self.names_in(output), {t.name for t in PLAIN if t.kind != 2})
        self.assertIn("3 sealed versions have no key", err)

    def test_keys_sealed_by_a_passphrase_open_with_it_and_with_no_other(self) -> None:
        # Enough keys for a second frame, so that the mark of the last frame counts.
        many = [LETTER, *(Thing(b"x%d" % n, key=LETTER.key) for n in range(600))]
        sealed = self.file("sealed", sealed_keys(exported_keys(many), b"correct horse"))
        good, bad = self.file("good", b"correct horse\n"), self.file("bad", b"wrong horse\n")
        status, output, err = self.extract(self.platters(), "--keys", sealed, "--passphrase-file", good, "--name", "sealed")
        self.assertEqual(status, 0, err)
        self.assert_there(output, LETTER)
        status, _, err = self.extract(self.platters(), "--keys", sealed, "--passphrase-file", bad)
        self.assertEqual(status, 2)
        self.assertIn("the passphrase is wrong", err)
        status, _, err = self.extract(self.platters(), "--keys", sealed)
        self.assertEqual(status, 2)
        self.assertIn("--passphrase-file", err)
        with open(sealed, "rb") as file:
            first_frame_only = self.file("cut", file.read()[: 37 + 65_552])
        status, _, err = self.extract(self.platters(), "--keys", first_frame_only, "--passphrase-file", good)
        self.assertEqual(status, 2)

    def test_exported_keys_that_are_not_whole_are_refused(self) -> None:
        text = exported_keys([LETTER, SEALED_LINK])
        lines = text.splitlines(keepends=True)
        for cut in (b"".join(lines[:-1]), text[:-1], text.replace(b"\nend ", b"\nend 9"), text.replace(b"key ", b"key  ", 1),
                    b"".join(lines[:3] + lines[4:]), text + b"\n", text.replace(b"fulgurite-keys 1", b"fulgurite-keys 01")):
            status, _, err = self.extract(self.platters([0]), "--keys", self.file("cut", cut))
            self.assertEqual(status, 2)
            self.assertIn("not whole", err)

    def test_keys_of_a_later_version_are_refused_with_a_sentence(self) -> None:
        for later, version in (
            (b"fulgurite-keys 2\nsomething else\n", 2), (b"FULGKEYS\3\0\0\0", 3), (b"FULGKEYS\3\0\0\0" + bytes(99), 3)
        ):
            status, _, err = self.extract(self.platters([0]), "--keys", self.file("later", later), "--passphrase-file", self.keys)
            self.assertEqual(status, 2)
            self.assertIn(f"are of format version {version}", err)

    def test_sealed_keys_in_blocks_survive_damage_up_to_their_redundancy(self) -> None:
        # Two groups, the second one a block short.
        many = [LETTER, SEALED_LINK, *(Thing(b"x%d" % n, key=LETTER.key) for n in range(1_348))]
        good = in_key_blocks(sealed_keys(exported_keys(many), b"correct horse"))
        n = int.from_bytes(good[48:52], "little")
        self.assertTrue(160 < n < 320 and n % 2 == 1, n)
        k = -(-n // 2)
        r = 8 + -(-7 * k // 20)
        passphrase = self.file("passphrase", b"correct horse\n")

        def opened(data: bytes) -> tuple[int, str]:
            status, output, err = self.extract(
                self.platters(), "--keys", self.file("blocks", data), "--passphrase-file", passphrase, "--name", "sealed"
            )
            if status == 0:
                self.assert_there(output, LETTER)
            return status, err

        status, err = opened(good)
        self.assertEqual(status, 0, err)
        self.assertNotIn("corrected", err)
        burst = (2 * r - 1) * 1_024 + 1
        for at in (0, 777, 150 * 1_024 + 1, len(good) - burst):
            status, err = opened(good[:at] + bytes(burst) + good[at + burst :])
            self.assertEqual(status, 0, err)
            self.assertIn(f"{2 * r} of its blocks are damaged or missing and were corrected", err)
            status, err = opened(good[:at] + good[at + burst :])
            self.assertEqual(status, 0, err)
        status, err = opened(good[:100] + b"x" + good[100:] + b"behind")
        self.assertEqual(status, 0, err)
        scattered = bytearray(good)
        for group in range(2):
            for t in range(r):
                scattered[(t * 4 + group) * 1_024 + 3 * t] ^= 1
        status, err = opened(bytes(scattered))
        self.assertEqual(status, 0, err)
        scattered[r * 4 * 1_024 + 5] ^= 1
        status, err = opened(bytes(scattered))
        self.assertEqual(status, 2)
        self.assertIn(f"{r + 1} blocks of group 0 are lost, and {r} can be given back", err)
        status, err = opened(good[:12])
        self.assertEqual(status, 2)
        self.assertIn("not one block", err)

    def test_a_key_file_that_asks_scrypt_for_more_than_the_format_allows_is_refused(self) -> None:
        good = sealed_keys(exported_keys([LETTER]), b"p")
        for log_n, r, p in ((9, 8, 1), (21, 1, 1), (20, 3, 1), (10, 1 << 11 | 1, 1), (20, 2, 5), (10, 0, 1), (10, 8, 0), (10, 8, 1 << 31), (255, 8, 1)):
            asking = good[:12] + struct.pack("<BII", log_n, r, p) + good[21:]
            status, _, err = self.extract(self.platters([0]), "--keys", self.file("asking", asking), "--passphrase-file", self.keys)
            self.assertEqual(status, 2)
            self.assertIn("beyond what the format allows", err)

    def test_the_key_of_another_version_opens_nothing(self) -> None:
        wrong = Thing(LETTER.name, key=noise(99, 32), version=LETTER.version)
        status, output, err = self.extract(self.platters(), "--keys", self.file("wrong", exported_keys([wrong])))
        self.assertEqual(status, 1)
        self.assertIn(f"version {LETTER.version.hex()}: its record does not open", err)
        self.assertNotIn(LETTER.name, self.names_in(output))

    def test_a_file_of_another_kind_is_refused_as_keys(self) -> None:
        status, _, err = self.extract(self.platters(), "--keys", self.file("no keys", b"hello\n"))
        self.assertEqual(status, 2)
        self.assertIn("not exported keys", err)


class OnGlass(PlatterTest):
    """Platters of glass, read from symbols that are all seen clearly."""

    def restored(self, *images: bytes) -> str:
        """Checks that the files of the set come back. Gives back what the reader reported."""
        paths = [self.file(f"glass-{index}", image) for index, image in enumerate(images)]
        status, output, err = self.extract(paths)
        self.assertEqual(status, 0, err)
        for name, content in (("on glass", noise(31, 7_000)), ("also", b"short")):
            with open(os.path.join(output, name), "rb") as restored:
                self.assertEqual(restored.read(), content)
        return err

    def test_glass_of_any_kind_is_read(self) -> None:
        for glass in (DESK, GlassShape(64, 214, (0.3,), 5), GlassShape(80, 256, (0.1, 0.2, 0.3, 0.4), 20)):
            with self.subTest(glass):
                self.assertNotIn("lost", self.restored(small_glass(glass)))
        status, out, _ = self.run_reader("inspect", self.file("inspected", small_glass()), "--json")
        report = json.loads(out)
        self.assertEqual((status, report["medium"], report["good_header_copies"]), (0, "glass", [0, 1, 2]))
        self.assertEqual((report["file_bytes"], report["expected_bytes"]), (len(small_glass()), len(small_glass())))

    def test_changed_symbols_cost_the_sectors_that_they_hit(self) -> None:
        image = bytearray(small_glass())
        for track, sector in ((0, 0), (0, 1), (0, 3), (1, 2)):
            image[DESK.place(OF_GLASS, track, sector) + 50 * sector] ^= 0x11
        err = self.restored(bytes(image))
        self.assertIn("4 sectors met lost; information sectors rebuilt: 1 by the track code, 3 by the large group code", err)
        # Beyond what the platter can give back by itself.
        for sector in range(6):
            image[DESK.place(OF_GLASS, 2, sector) + 99] ^= 0x11
        self.assertNotEqual(self.extract([self.file("alone", bytes(image))])[0], 0)
        self.restored(bytes(image), small_glass(position=1))

    def test_a_platter_is_read_without_most_of_its_headers_or_a_head(self) -> None:
        whole = small_glass()
        header_bytes = DESK.h * DESK.packed_bytes
        wiped = bytearray(whole)
        wiped[: 4_096 + header_bytes // 3] = bytes(4_096 + header_bytes // 3)
        self.assertNotIn("lost", self.restored(bytes(wiped)))
        wiped[4_096 : 4_096 + header_bytes] = noise(5, header_bytes)
        self.restored(bytes(wiped))
        self.restored(whole[: -4_096 - 100])
        self.restored(whole + b"more")
        cut = whole[: DESK.place(OF_GLASS, 2, 3) + 7]
        self.restored(cut)
        self.restored(cut[: DESK.place(OF_GLASS, 0, 2)], small_glass(position=1))
        wiped[-4_096:] = bytes(4_096)
        status, _, err = self.run_reader("inspect", self.file("headless", bytes(wiped)))
        self.assertEqual(status, 2)
        self.assertIn("is not a Fulgurite platter", err)

    def test_other_glass_is_refused_with_a_sentence(self) -> None:
        platter = small_set()[0]
        identifier = read_platter.cbor(platter[16:H])[0]["platter"]
        for head, sentence in (
            (DESK.head(OF_GLASS, identifier, version=2), "is glass of version 2"),
            (DESK.head(OF_GLASS, identifier, coding=b"morse"), "in the coding morse; this reader knows two azimuths"),
            (replace(DESK, rows=10).head(OF_GLASS, identifier), "not as the format says"),
            (replace(DESK, p=4).head(OF_GLASS, identifier), "not as the format says"),
            (replace(DESK, rows=1 << 20).head(OF_GLASS, identifier), "not as the format says"),
            (DESK.head(replace(OF_GLASS, s=8_192), identifier), "not as the format says"),
            (DESK.head(replace(OF_GLASS, i_t=0, r_t=0), identifier), "not as the format says"),
        ):
            status, _, err = self.run_reader("inspect", self.file("foreign", head + small_glass()[4_096:]))
            self.assertEqual(status, 2)
            self.assertIn(sentence, err)


class BadPages(unittest.TestCase):
    def test_what_stands_close_to_a_page_that_the_disk_refuses_is_found(self) -> None:
        places, bad = [100, 4_000, 8_192, 12_280, 20_000], {0, 4}  # the last page of the file is bad too
        content = bytearray(20_480)
        for place in places:
            content[place : place + 8] = b"FULGPLAT"
        pread = os.pread

        def refusing(descriptor: int, length: int, offset: int) -> bytes:
            if bad & set(range(offset // 4_096, (offset + length - 1) // 4_096 + 1)):
                raise OSError(5, "Input/output error")
            return pread(descriptor, length, offset)

        with tempfile.NamedTemporaryFile() as file, unittest.mock.patch("os.pread", refusing):
            file.write(content)
            file.flush()
            self.assertEqual(list(read_platter.Copy(file.name).find(b"FULGPLAT")), [8_192, 12_280])


class Looking(PlatterTest):
    def test_inspect_counts_what_is_lost_on_each_level(self) -> None:
        self.spoil(1, 0, [0, 7])
        self.spoil(1, 3)
        self.spoil(1, 5, range(2, 6))
        self.spoil(1, 6)
        self.images[1][50] ^= 1
        status, out, err = self.run_reader("inspect", self.platters([1])[0], "--json")
        report = json.loads(out)
        self.assertEqual(status, 0, err)
        self.assertEqual(report["position"], 1)
        self.assertEqual((report["set_information"], report["set_redundancy"], len(report["members"])), (3, 2, 5))
        self.assertEqual(report["good_header_copies"], [1, 2])
        self.assertEqual(report["file_bytes"], report["expected_bytes"])
        health = report["health"]
        self.assertEqual(health["information_sectors"], {"good": 96 - 1 - 4 - 6, "lost": 11})
        self.assertEqual(health["group_redundancy_sectors"], {"good": 30, "lost": 6})
        self.assertEqual(health["track_redundancy_sectors"], {"good": 66 - 7, "lost": 7})
        self.assertEqual(health["damaged_tracks_the_track_code_repairs"], 1)
        self.assertEqual(health["tracks_lost_to_the_track_code"], [3, 5, 6])
        self.assertEqual(health["large_groups_lost_to_the_group_code"], [1])

    def test_inspect_summarizes_the_file_table(self) -> None:
        status, out, _ = self.run_reader("inspect", self.platters([0])[0], "--json")
        self.assertEqual(status, 0)
        table = json.loads(out)["table"]
        self.assertEqual((table["entries"], table["sealed"], table["tombstones"], table["shards_of_larger_objects"]), (6, 0, 1, 1))
        status, out, _ = self.run_reader("inspect", self.platters([4])[0])
        self.assertEqual(status, 0)
        self.assertIn("role: redundancy", out)

    def test_foreign_files_and_newer_versions_are_refused_with_a_sentence(self) -> None:
        for content, sentence in (
            (b"", "is not a Fulgurite platter"),
            (noise(1, 100_000), "is not a Fulgurite platter"),
            (header_block({"anything": 1}, version=2), "is of format version 2"),
            (header_block({"anything": 1}), "not as the format says"),
            (header_block({"anything": 1}, version=2)[:-8].ljust(H, b"\0"), "is of format version 2"),
            (self.changed(lambda item: item.update(medium="wax")), "is of the medium wax; this reader knows disk and glass"),
        ):
            status, _, err = self.run_reader("inspect", self.file("foreign", content))
            self.assertEqual(status, 2)
            self.assertIn(sentence, err)
        self.assertEqual(self.run_reader("inspect", os.path.join(self.directory, "nothing here"))[0], 2)

    def changed(self, change, position: int = 0) -> bytes:
        """A platter of set A whose headers, checksums right, say something else."""
        item, _ = read_platter.cbor(set_a()[position][16:H])
        change(item)
        image = bytearray(set_a()[position])
        for offset in A.headers():
            image[offset : offset + H] = header_block(item)
        return bytes(image)

    def test_headers_that_are_not_as_the_format_says_are_refused(self) -> None:
        changes = [lambda item, key=key: item.pop(key) for key in ("set", "medium", "writer", "archive", "members", "platter", "written", "geometry")]
        changes += [lambda item, key=key, value=value: item["geometry"].update({key: value}) for key, value in (
            ("sector_bytes", 1_000), ("sector_bytes", 512), ("sector_bytes", 1 << 17), ("track_information", 0), ("track_redundancy", 250),
            ("group_information", 0), ("group_information", 10_922), ("group_redundancy", 5_462), ("information_tracks", 0),
            ("information_tracks", 1 << 31), ("information_tracks", 1_650_000_000), ("information_tracks", -1), ("information_tracks", b"9"))]
        changes += [lambda item, position=position: item.update(position=position) for position in (1, 5, -5, b"0")]
        changes += [
            lambda item: item.update(set_information=4),
            lambda item: item.update(set_information=0, set_redundancy=5),
            lambda item: item["members"].pop(),
            lambda item: item["members"][1].append(0),
            lambda item: item["members"][1].pop(),
            lambda item: item["members"].__setitem__(1, [b"short", 0, 0, 0]),
            lambda item: item["members"].__setitem__(2, item["members"][1]),
            lambda item: item["members"].__setitem__(1, [item["members"][1][0], 0, 0, 0]),
            lambda item: item["members"].__setitem__(1, [item["members"][1][0], 1 << 40, 99, 0]),
            lambda item: item["members"].__setitem__(4, [item["members"][4][0], 0, 99, 0]),
        ]
        for n, change in enumerate(changes):
            status, _, err = self.run_reader("inspect", self.file("changed", self.changed(change)))
            self.assertEqual(status, 2, n)
            self.assertIn("not as the format says", err)
        # One less is within the limit.
        for key, value in (("group_information", 10_921), ("group_redundancy", 5_461)):
            with self.subTest(key):
                item, _ = read_platter.cbor(self.changed(lambda item: item["geometry"].update({key: value}))[16:H])
                self.assertIsNotNone(read_platter.Header.parse(header_block(item)))

    def test_a_set_beyond_the_field_of_the_pooled_code_is_refused(self) -> None:
        def grow(item: dict, information: int) -> None:
            item["geometry"].update(track_information=255, track_redundancy=0, group_information=1, group_redundancy=1)
            more = [[n.to_bytes(16, "big"), 0, 24 if n < information - 1 else 0, 0] for n in range(information + 1)]
            item.update(members=[item["members"][0], *more], set_information=information, set_redundancy=2)

        # 255 * 254 + 512 = 65,282 symbols are within the field, 255 * 255 + 512 = 65,537 are one too many.
        self.assertIsNotNone(read_platter.Header.parse(self.changed(lambda item: grow(item, 254))[:H]))
        with self.assertRaises(read_platter.Refused):
            read_platter.Header.parse(self.changed(lambda item: grow(item, 255))[:H])

    def test_a_foreign_file_among_platters_is_left_out_with_a_word(self) -> None:
        paths = [self.file("foreign", noise(1, 50_000)), *self.platters([0, 1, 4])]
        self.assertIn("Going on without it", self.assert_all_back(paths))

    def test_a_platter_that_contradicts_its_set_is_left_out(self) -> None:
        (other,) = write_set(replace(B, n=2), b"A" * 16, [Space()])
        self.assertIn("contradicts", self.assert_all_back([*self.platters(), self.file("other", other)]))

    def test_the_header_of_a_platter_within_a_platter_is_not_taken_for_its_own(self) -> None:
        other = set_b()[0][:H]
        self.images[0][H : 2 * H] = other  # as if a sector held it, in front of the good copy in the middle
        self.images[0][:H] = bytes(H)
        del self.images[0][-5:]
        status, out, err = self.run_reader("inspect", self.platters([0])[0], "--json")
        self.assertEqual(json.loads(out)["set"], (b"A" * 16).hex(), err)

    def test_a_platter_that_holds_only_another_one_s_header_is_not_believed(self) -> None:
        # Bytes in front, so that the copies lie at multiples of 64, and not where they say.
        status, _, err = self.run_reader("inspect", self.file("held", bytes(64) + set_b()[0]))
        self.assertEqual(status, 2)
        self.assertIn("no copy of the header is good", err)

    def test_a_headless_platter_that_holds_sectors_of_another_is_still_known(self) -> None:
        for offset in A.headers():
            self.images[1][offset : offset + H] = bytes(H)
        held = b"".join(set_a()[4][A.offset(0, n) : A.offset(0, n + 1)] for n in range(3))
        self.images[1][H : H + len(held)] = held  # in front of all sectors of its own
        self.assert_all_back(self.platters([0, 1, 3]))

    def test_ls_lists_what_is_there_and_sealed_entries_by_version(self) -> None:
        status, out, err = self.run_reader("ls", *self.platters([0, 2, 4]), "--json")
        self.assertEqual(status, 0, err)
        listed = json.loads(out)["objects"]
        names = [o.get("name", o.get("name_hex")) for o in listed]
        expected = [t.name.decode() for t in PLAIN if t is not ODD] + [ODD.name.hex()] + [None] * 3
        self.assertEqual(sorted(names, key=str), sorted(expected, key=str))
        sealed = {o["version_identifier"] for o in listed if "name" not in o and "name_hex" not in o}
        self.assertEqual(sealed, {t.version.hex() for t in (LETTER, SEALED_LINK, KEYLESS)})
        (newer,) = [o for o in listed if o["version_identifier"] == NEWER.version.hex()]
        self.assertEqual((newer["size"], newer["version"], newer["mtime"]), (len(NEWER.content), 2, list(NEWER.mtime)))

    def test_ls_passes_on_what_attributes_say_up_to_their_limits(self) -> None:
        described = {"content-type": b"text/plain", "etag": b"\xd4\x1d", "é" * 127 + "x": b""}
        most = {f"{n:03}": bytes([n]) * 253 for n in range(256)}
        space = Space()
        for name, attributes in ((b"described", described), (b"most", most), (b"plain", None)):
            space.whole(Thing(name, b"content", attributes=attributes))
        (image,) = write_set(as_long_as(space), b"F" * 16, [space])
        status, out, err = self.run_reader("ls", self.file("f", image), "--json")
        self.assertEqual(status, 0, err)
        objects = {o["name"]: o for o in json.loads(out)["objects"]}
        self.assertEqual(objects["described"]["attributes"], {"content-type": "text/plain", "é" * 127 + "x": ""})
        self.assertEqual(objects["described"]["attributes_hex"], {"etag": "d41d"})
        found = objects["most"]["attributes"] | objects["most"]["attributes_hex"]
        self.assertEqual(found["000"] + found["255"], "\0" * 253 + "ff" * 253)
        self.assertEqual(len(found), 256)
        self.assertNotIn("attributes", objects["plain"])

    def test_ls_says_which_objects_lack_shards(self) -> None:
        status, out, _ = self.run_reader("ls", *self.platters([0]))
        self.assertEqual(status, 0)
        (tower,) = [line for line in out.splitlines() if "tower" in line]
        self.assertIn("shards missing", tower)
        self.assertEqual(out.count("shards missing"), 1)

    def test_the_program_runs_from_the_command_line(self) -> None:
        command = [sys.executable, read_platter.__file__, "ls", *self.platters([1]), "--keys", self.keys]
        done = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"sealed/link", done.stdout)
        self.assertNotIn(b"\x1b", done.stdout)


if __name__ == "__main__":
    unittest.main()
