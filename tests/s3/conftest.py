"""The server under test, clients for it, and buckets that live as long as a test.

    FULGURITE_BIN (default target/debug/fulgurite)  started once a session, on an archive of its own, and stopped with SIGTERM
    S3_ENDPOINT and keys                            another server, which is only talked to

Every test has buckets of its own, with names nobody else has, so that tests can run in any order and beside each other.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest
from botocore.exceptions import ClientError

from serving import Own, Serving, connect, fail
from wire import Account, Server, Wire

# What somebody has set up for his own account must not change what is tested.
os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if endpoint := os.environ.get("S3_ENDPOINT"):
        yield elsewhere(endpoint)
        return
    serving = Serving(tmp_path_factory.mktemp("s3"))
    try:
        serving.start()
        alt = serving.add_account("second")
        yield Server(serving.endpoint, serving.region, serving.account, alt)
        serving.stop()
    finally:
        serving.kill()


@pytest.fixture
def running(tmp_path) -> Iterator[Serving]:
    """A server of one's own, whose files and settings can be looked at and changed."""
    if os.environ.get("S3_ENDPOINT"):
        pytest.skip("another server is not started here")
    serving = Serving(tmp_path)
    try:
        serving.start()
        yield serving
        serving.stop()
    finally:
        serving.kill()


def elsewhere(endpoint: str) -> Server:
    def account(prefix: str) -> Account | None:
        key, secret = (os.environ.get(f"{prefix}_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"))
        return Account(key, secret) if key and secret else None

    main = account("AWS") or fail("with S3_ENDPOINT go AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    return Server(endpoint.rstrip("/"), os.environ.get("AWS_REGION", "us-east-1"), main, account("S3_ALT"))


@pytest.fixture(scope="session")
def s3(server: Server):
    return connect(server, server.main)


@pytest.fixture(scope="session")
def alt(server: Server):
    """The second account, which has no rights in the buckets of the first."""
    if not server.alt:
        pytest.skip("S3_ALT_ACCESS_KEY_ID and S3_ALT_SECRET_ACCESS_KEY are not set")
    return connect(server, server.alt)


@pytest.fixture(scope="session")
def anonymous(server: Server):
    return connect(server, None)


@pytest.fixture(scope="session")
def wire(server: Server) -> Wire:
    return Wire(server)


@pytest.fixture
def own(tmp_path) -> Own:
    if os.environ.get("S3_ENDPOINT"):
        pytest.skip("another server is not started here")
    return Own(tmp_path)


@pytest.fixture
def bucket_name() -> str:
    return unused_name()


def unused_name() -> str:
    return f"conformance-{uuid.uuid4().hex[:24]}"


@pytest.fixture
def make_bucket(s3) -> Iterator[Callable[..., str]]:
    """Makes a bucket that is gone after the test; `versioning` is its state from the beginning."""
    made = []

    def make(client=None, *, name: str | None = None, versioning: str | None = None, **settings) -> str:
        client, name = client or s3, name or unused_name()
        client.create_bucket(Bucket=name, **settings)
        made.append((client, name))
        if versioning:
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": versioning})
        return name

    yield make
    for client, name in made:
        remove(client, name)


@pytest.fixture
def bucket(make_bucket) -> str:
    return make_bucket()


@pytest.fixture
def versioned(make_bucket) -> str:
    return make_bucket(versioning="Enabled")


def remove(client, bucket: str) -> None:
    """Removes a bucket with all that is in it. What is locked for compliance stays, and its bucket too: nobody may remove it."""
    try:
        client.delete_bucket_policy(Bucket=bucket)
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
            for upload in page.get("Uploads", []):
                client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        versions = []
        for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for entry in page.get("Versions", []) + page.get("DeleteMarkers", []):
                versions.append({"Key": entry["Key"], "VersionId": entry["VersionId"]})
        remove_versions(client, bucket, versions)
        client.delete_bucket(Bucket=bucket)
    except ClientError:
        # The test has removed it itself, or has locked it. A server that can't remove things fails the tests of removing.
        pass


def remove_versions(client, bucket: str, versions: list[dict]) -> None:
    # XML has no control characters, so keys with them go one by one.
    plain = [version for version in versions if version["Key"].isprintable()]
    for version in versions:
        if not version["Key"].isprintable():
            client.delete_object(Bucket=bucket, **version)
    for batch in (plain[start : start + 1000] for start in range(0, len(plain), 1000)):
        answer = client.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
        for error in answer.get("Errors", []):
            release(client, bucket, error["Key"], error.get("VersionId"))


def release(client, bucket: str, key: str, version: str | None) -> None:
    which = {"Bucket": bucket, "Key": key, "VersionId": version} if version else {"Bucket": bucket, "Key": key}
    try:
        client.put_object_legal_hold(**which, LegalHold={"Status": "OFF"})
    except ClientError:
        # Only a governed one, then.
        pass
    client.delete_object(**which, BypassGovernanceRetention=True)
