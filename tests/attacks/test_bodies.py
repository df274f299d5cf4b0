"""Bodies that are held whole, or come slowly: XML, signed chunks, content of objects and parts; and answers that nobody takes."""

import pytest

from conftest import falls_back, head
from crowd import Crowd
from wire import SIGNED_CHUNKS, UNSIGNED, Wire

CROWD = 200


def sealed(wire: Wire, method: str, target: str, fields: dict[str, str], payload: str = UNSIGNED) -> bytes:
    return head(method, target, wire.seal(method, target, fields, payload, wire.signer()))


@pytest.mark.parametrize("target", ["/target?delete", "/target?tagging", "/target?policy", "/target/k?uploadId=1", "/target/k?retrieve", "/target?retrieve"])
def test_bodies_that_are_read_whole_share_a_memory(serving, attack, wire: Wire, bucket: str, target: str):
    method = "POST" if "delete" in target or "uploadId" in target or "retrieve" in target else "PUT"
    start = sealed(wire, method, target, {"Content-Length": str(4 << 20), "x-amz-checksum-crc32": "AAAAAA=="})
    with attack(cpu_s=20), Crowd(wire.address) as crowd:
        crowd.connect(CROWD)
        crowd.send(start + b"<Delete>" + b" " * (4_100_000), timeout_s=5)
    falls_back(serving)


def test_signed_chunks_share_a_memory(serving, attack, wire: Wire, bucket: str):
    size = 4 << 20
    fields = {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": str(size), "Content-Length": str(size + 1_000)}
    start = sealed(wire, "PUT", f"/{bucket}/chunks", fields, SIGNED_CHUNKS)
    with attack(cpu_s=20), Crowd(wire.address) as crowd:
        crowd.connect(CROWD)
        crowd.send(start + f"{size:x};chunk-signature={'0' * 64}\r\n".encode() + b"x" * (size - 100), timeout_s=5)
    falls_back(serving)


@pytest.mark.parametrize("first", [1, 60_000, 1 << 20])
@pytest.mark.parametrize("part", [False, True])
def test_uploads_that_trickle_starve_nobody(serving, attack, wire: Wire, bucket: str, first: int, part: bool):
    target = f"/{bucket}/slow"
    if part:
        begun = wire.send("POST", f"/{bucket}/slow?uploads")
        target += "?partNumber=1&uploadId=" + begun.body.split(b"<UploadId>")[1].split(b"<")[0].decode()
    start = sealed(wire, "PUT", target, {"Content-Length": str(8 << 20)})
    with attack(cpu_s=20) as client, Crowd(wire.address) as crowd:
        crowd.connect(CROWD)
        crowd.send(start + b"x" * first, timeout_s=4)
        done = len(client.took)
        for _ in range(10):
            crowd.send(b"x" * 100, timeout_s=0.5)
            client.over.wait(0.2)
        assert len(client.took) > done, "nothing is done for the honest client meanwhile"
    falls_back(serving)


@pytest.mark.parametrize("size", [200 << 10, 8 << 20])
def test_answers_that_nobody_takes_share_a_memory(serving, attack, wire: Wire, bucket: str, size: int):
    assert wire.send("PUT", f"/{bucket}/large", body=b"x" * size).status == 200
    ask = sealed(wire, "GET", f"/{bucket}/large", {})
    with attack(cpu_s=20) as client, Crowd(wire.address) as crowd:
        crowd.connect(CROWD)
        crowd.send(ask, timeout_s=3)
        client.over.wait(4)
    falls_back(serving)


def test_long_lists_that_nobody_takes_share_a_memory(serving, attack, wire: Wire, bucket: str):
    for number in range(300):
        assert wire.send("PUT", f"/{bucket}/{'l' * 900}{number:04}", body=b"").status == 200
    ask = sealed(wire, "GET", f"/{bucket}?list-type=2&prefix=l", {})
    with attack(cpu_s=20) as client, Crowd(wire.address) as crowd:
        crowd.connect(CROWD)
        crowd.send(ask, timeout_s=3)
        client.over.wait(2)
    falls_back(serving)
