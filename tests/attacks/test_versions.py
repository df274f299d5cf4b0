"""Keys with many versions, and requests that name the null version, which may be any of them or none.

Each version takes a commit of its own, so there are 1,500 here. What the catalogue does among 15,000 is counted in steps of SQLite, by
`the_cost_of_finding_a_version_does_not_grow_with_the_versions_of_its_name` in crates/archive.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from wire import Wire, _sha256

VERSIONS = 1_500
ASKED = 150


@pytest.fixture(scope="module")
def many(wire: Wire) -> str:
    bucket = "many"
    assert wire.send("PUT", f"/{bucket}").status == 200
    assert wire.send("PUT", f"/{bucket}?versioning", body=versioning("Enabled")).status == 200
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: wire.send("PUT", f"/{bucket}/{'k' * 1_000}", body=b"body").status, range(VERSIONS)))
    assert set(statuses) == {200}
    return bucket


def versioning(status: str) -> bytes:
    return f"<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>".encode()


def test_the_null_version_is_not_looked_for_among_all(attack, wire: Wire, many: str):
    with attack(cpu_s=6), ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: wire.send("GET", f"/{many}/{'k' * 1_000}?versionId=null"), range(ASKED)))
    assert {(reply.status, reply.code) for reply in replies} == {(404, "NoSuchVersion")}


def test_many_deletions_of_null_versions_end_soon(attack, wire: Wire, many: str):
    objects = f"<Object><Key>{'k' * 1_000}</Key><VersionId>null</VersionId></Object>" * 1_000
    body = f"<Delete>{objects}</Delete>".encode()
    with attack(cpu_s=10):
        reply = wire.send("POST", f"/{many}?delete", {"x-amz-checksum-sha256": digest(body)}, body)
    assert reply.status == 200


def test_many_deletions_of_versions_that_are_not_there_end_soon(attack, wire: Wire, many: str):
    objects = "".join(f"<Object><Key>{'k' * 1_000}</Key><VersionId>{number:032x}</VersionId></Object>" for number in range(1_000))
    body = f"<Delete>{objects}</Delete>".encode()
    with attack(cpu_s=10):
        reply = wire.send("POST", f"/{many}?delete", {"x-amz-checksum-sha256": digest(body)}, body)
    assert reply.status == 200


def test_a_page_behind_a_version_that_is_gone_is_found_at_once(attack, wire: Wire, many: str):
    query = f"versions&max-keys=1&key-marker={'k' * 1_000}&version-id-marker=" + "0" * 32
    with attack(cpu_s=6), ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: wire.send("GET", f"/{many}?{query}"), range(ASKED)))
    assert {reply.status for reply in replies} == {200}


def test_puts_in_a_suspended_bucket_cost_no_more_with_many_versions(attack, wire: Wire, many: str):
    assert wire.send("PUT", f"/{many}?versioning", body=versioning("Suspended")).status == 200
    with attack(cpu_s=10), ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: wire.send("PUT", f"/{many}/{'k' * 1_000}", body=b"null"), range(ASKED)))
    assert {reply.status for reply in replies} == {200}
    assert wire.send("GET", f"/{many}/{'k' * 1_000}?versionId=null").body == b"null"


def digest(body: bytes) -> str:
    import base64

    return base64.b64encode(bytes.fromhex(_sha256(body))).decode()
