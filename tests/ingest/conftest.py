"""A broker, a registry of schemas and a server, for the tests of `fulgurite ingest`.

    KAFKA_JARS     the folder with the broker's jars (default target/xtask-ingest/jars)
    APICURIO       the folder with Apicurio Registry (default target/xtask-ingest/apicurio)
    FULGURITE_BIN  the program, built with the feature `kafka`; see ../s3/serving.py

All listen on 127.0.0.1 only. Every test has topics, groups and buckets of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker import Broker, jars
from registry import Apicurio, StandIn, apicurio, stand_in
from serving import START_S, Own, Serving, connect

os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
INGEST_S = 120


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One for all tests that leave it as it is."""
    yield from started(Broker(tmp_path_factory.mktemp("kafka"), jars()))


@pytest.fixture
def own_broker(tmp_path) -> Iterator[Broker]:
    """One that a test may kill."""
    yield from started(Broker(tmp_path / "kafka", jars()))


def started(broker: Broker) -> Iterator[Broker]:
    try:
        broker.start()
        yield broker
        broker.stop()
    finally:
        broker.kill()


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with stand_in() as registry:
        yield registry


@pytest.fixture
def real_registry(tmp_path) -> Iterator[Apicurio]:
    registry = Apicurio(apicurio(), tmp_path)
    yield registry
    registry.stop()


@pytest.fixture
def unused() -> Callable[[str], str]:
    return lambda what: f"{what}-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    with Own(tmp_path_factory.mktemp("s3")) as server:
        yield server


@dataclass
class Ended:
    """How a run of `ingest` ended: its answer, and its other lines."""

    status: int
    answer: dict
    lines: list[dict]

    @property
    def text(self) -> str:
        return "\n".join(line.get("text") or line.get("error", "") for line in self.lines)


class Bucket:
    """A versioned bucket, in which a second put of a key would show, and `ingest` into it."""

    def __init__(self, server: Serving, name: str):
        self.server, self.name = server, name
        self.connect()
        self.s3.create_bucket(Bucket=name)
        self.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})

    def connect(self) -> None:
        self.s3 = connect(self.server.server, self.server.account)

    def command(self, *arguments: str) -> list[str]:
        return [str(self.server.program), "--json", "ingest", *arguments, "--bucket", self.name]

    @property
    def environment(self) -> dict[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": self.server.account.access_key, "AWS_SECRET_ACCESS_KEY": self.server.account.secret_key}
        return {**os.environ, **keys, "AWS_ENDPOINT_URL": self.server.endpoint, "AWS_DEFAULT_REGION": self.server.region}

    def ingest(self, *arguments: str, **environment: str) -> Ended:
        command = self.command(*arguments)
        ran = subprocess.run(command, env=self.environment | environment, capture_output=True, text=True, timeout=INGEST_S, check=False)
        out = ran.stdout.splitlines()
        return Ended(ran.returncode, json.loads(out[-1]) if out else {}, [json.loads(line) for line in ran.stderr.splitlines()])

    def kafka(self, broker: Broker, topic: str, *arguments: str, group: str = "", **environment: str) -> Ended:
        """Stores all that the topic has, as a group of its own unless one is named."""
        where = ["--brokers", broker.address(), "--topic", topic, "--group", group or f"group-{uuid.uuid4().hex}"]
        return self.ingest("kafka", *where, "--until-end", *arguments, **environment)

    def versions(self) -> list[tuple[str, str]]:
        pages = self.s3.get_paginator("list_object_versions").paginate(Bucket=self.name)
        return [(version["Key"], version["VersionId"]) for page in pages for version in page.get("Versions", [])]

    def content(self, key: str) -> bytes:
        return self.s3.get_object(Bucket=self.name, Key=key)["Body"].read()

    def contents(self, but: str = "_dead-letters/") -> dict[str, bytes]:
        """All objects, of which each has one version; without dead letters."""
        versions = [key for key, _ in self.versions()]
        assert len(versions) == len(set(versions)), "an object was stored twice"
        return {key: self.content(key) for key in versions if not key.startswith(but)}

    def dead_letters(self) -> dict[str, tuple[bytes, str]]:
        """Their contents and reasons, by key without the checksum."""
        letters = [key for key, _ in self.versions() if key.startswith("_dead-letters/")]
        reason = lambda key: self.s3.head_object(Bucket=self.name, Key=key)["Metadata"]["reason"]
        return {key.removeprefix("_dead-letters/")[:-9]: (self.content(key), reason(key)) for key in letters}


@pytest.fixture
def bucket(server: Own, unused) -> Bucket:
    return Bucket(server, unused("alerts"))


def produce(broker: Broker, topic: str, *packets: bytes | None, partition: int = -1) -> None:
    """Returns once the broker has acknowledged all."""
    failures = []
    producer = Producer(broker.client() | {"acks": "all", "linger.ms": "5"})
    for packet in packets:
        told = lambda error, _: failures.append(error) if error else None
        producer.produce(topic, packet, partition=partition, on_delivery=told)
        producer.poll(0)
    assert producer.flush(START_S) == 0 and not failures


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
