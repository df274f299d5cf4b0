"""The checksums S3 knows, computed bit by bit from their definitions, so that no library of the client is their only witness.

CRC-32C and CRC-64/NVME are in no standard library. Tables make them fast enough for a few megabytes. xxHash is its author's C code, which no client
has in it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import zlib

import xxhash

# Reflected polynomials: RFC 3720, appendix B.4, and NVM Express NVM Command Set 1.0, section 5.2.1.3.4.
CASTAGNOLI = 0x82F63B78
NVME = 0x9A6C9329AC4BC9B5

ALGORITHMS = ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256", "SHA512", "MD5", "XXHASH64", "XXHASH3", "XXHASH128"]


@functools.cache
def _table(polynomial: int) -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ polynomial if byte & 1 else byte >> 1
        table.append(byte)
    return table


def _crc(data: bytes, polynomial: int, bits: int) -> bytes:
    ones = (1 << bits) - 1
    table, value = _table(polynomial), ones
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return (value ^ ones).to_bytes(bits // 8, "big")


def raw(algorithm: str, data: bytes) -> bytes:
    """The bytes of the checksum, most significant first."""
    match algorithm:
        case "CRC32":
            return zlib.crc32(data).to_bytes(4, "big")
        case "CRC32C":
            return _crc(data, CASTAGNOLI, 32)
        case "CRC64NVME":
            return _crc(data, NVME, 64)
        case "SHA1":
            return hashlib.sha1(data).digest()
        case "SHA256":
            return hashlib.sha256(data).digest()
        case "SHA512":
            return hashlib.sha512(data).digest()
        case "MD5":
            return hashlib.md5(data).digest()
        case "XXHASH64":
            return xxhash.xxh64(data).digest()
        case "XXHASH3":
            return xxhash.xxh3_64(data).digest()
        case "XXHASH128":
            return xxhash.xxh3_128(data).digest()
    raise ValueError(algorithm)


def checksum(algorithm: str, data: bytes) -> str:
    """As it stands in a header."""
    return base64.b64encode(raw(algorithm, data)).decode()


def composite(algorithm: str, parts: list[bytes]) -> str:
    """Of a multipart object: the checksum of the checksums of its parts, and how many they are."""
    return f"{checksum(algorithm, b''.join(raw(algorithm, part) for part in parts))}-{len(parts)}"


def etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def multipart_etag(parts: list[bytes]) -> str:
    digests = b"".join(hashlib.md5(part).digest() for part in parts)
    return f'"{hashlib.md5(digests).hexdigest()}-{len(parts)}"'


def content_md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data).digest()).decode()
