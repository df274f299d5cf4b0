"""Apache Kafka as a process: one node in KRaft mode, started on a folder, killed, and started again where it was.

    KAFKA_JARS  a folder with the jars that pom.xml names (see there how they get into it)

All listeners are on 127.0.0.1. Their ports lie below those that the system gives to outgoing connections, so that no other
program gets one while the broker is down.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from certificates import Authority
from serving import REPOSITORY

START_S = 90
STOP_S = 60
LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# The one who may do all with SASL; without SASL all are User:ANONYMOUS, who may too.
USER, PASSWORD = "survey", "correct horse"
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    # There is one broker, and its own topics are small.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # A group forms at once, and a client may ask for a short session, so that a killed one is soon forgotten.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    # The controller waits this long for a broker that was killed before it lets the new one in. A shorter time makes restarts
    # quicker, and throws a broker out that gets no processor for so long.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    # Half of the small heap by default.
    "log.cleaner.dedupe.buffer.size": "8388608",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{USER}",
    "allow.everyone.if.no.acl.found": "true",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "listener.name.ssl.ssl.client.auth": "requested",
}


class Broker:
    """A broker with its data, its settings and its log in `folder`. `settings` are more of Kafka's own.

    It is up soon and takes little of the processors. One that is `quick` takes half again as long to start, and then does TLS
    at ten times the rate: the JVM has AES only in its second compiler.
    """

    def __init__(self, folder: Path, jars: Path, *, settings: dict[str, str] | None = None, heap: str = "512m", quick: bool = False):
        self.folder, self.data, self.log = folder, folder / "data", folder / "log"
        self._jars, self._heap = jars, heap
        self._compilers = [] if quick else ["-XX:TieredStopAtLevel=1"]
        self.process: subprocess.Popen | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(folder)
        self.certificate = self.authority.issue("broker")
        self.ports = dict(zip((*LISTENERS, "CONTROLLER"), free_ports(len(LISTENERS) + 1), strict=True))
        self._write(settings or {})
        self._format()

    def _write(self, more: dict[str, str]) -> None:
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        settings = SETTINGS | {
            "listeners": listeners,
            "advertised.listeners": ",".join(f"{name}://{self.address(name)}" for name in LISTENERS),
            "listener.security.protocol.map": ",".join([*(f"{name}:{name}" for name in LISTENERS), "CONTROLLER:PLAINTEXT"]),
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports['CONTROLLER']}",
            "log.dirs": str(self.data),
            "ssl.keystore.location": str(self.certificate),
            "ssl.truststore.location": str(self.authority.path),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        }
        for name in ("sasl_plaintext", "sasl_ssl"):
            login = "org.apache.kafka.common.security"
            settings[f"listener.name.{name}.plain.sasl.jaas.config"] = f'{login}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                settings[f"listener.name.{name}.{mechanism}.sasl.jaas.config"] = f"{login}.scram.ScramLoginModule required;"
        lines = [f"{name}={value}\n" for name, value in (settings | more).items()]
        (self.folder / "server.properties").write_text("".join(lines))

    def _java(self, main: str, *arguments: str) -> list[str]:
        options = [f"-Xmx{self._heap}", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", *self._compilers]
        # A log4j without a file of settings writes to the standard output.
        options += ["-Dorg.apache.logging.log4j.level=WARN", "-Djava.awt.headless=true"]
        return ["java", *options, "-cp", f"{self._jars}/*", main, *arguments]

    def _format(self) -> None:
        settings = str(self.folder / "server.properties")
        arguments = ["format", "--config", settings, "--cluster-id", "Z2xhc3MtdGVzdC1vZi1rYQ"]
        for mechanism in MECHANISMS[1:]:
            arguments += ["--add-scram", f'{mechanism}=[name="{USER}",password="{PASSWORD}"]']
        done = subprocess.run(self._java("kafka.tools.StorageTool", *arguments), capture_output=True, text=True, timeout=START_S, check=False)
        assert done.returncode == 0, f"the broker's storage can't be formatted:\n{done.stdout}{done.stderr}"

    def address(self, listener: str = "PLAINTEXT", host: str = "127.0.0.1") -> str:
        return f"{host}:{self.ports[listener]}"

    def client(self, listener: str = "PLAINTEXT", mechanism: str = "PLAIN", password: str = PASSWORD) -> dict[str, str]:
        """Settings with which a client, in librdkafka's words, gets in by a listener."""
        said = {"bootstrap.servers": self.address(listener), "security.protocol": listener}
        # librdkafka reaches for the broker again sooner than after its 10 s.
        said |= {"reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "500"}
        if listener.startswith("SASL"):
            said |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": password}
        if listener.endswith("SSL"):
            said["ssl.ca.location"] = str(self.authority.path)
        return said

    def start(self) -> float:
        """Returns when it answers and leads all its partitions, and says after how many seconds."""
        begun = time.monotonic()
        with open(self.log, "ab") as log:
            command = self._java("kafka.Kafka", str(self.folder / "server.properties"))
            # In a group of its own, so that the Ctrl-C of a person at the tests is not also the broker's.
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, start_new_session=True)
        while not all(connects(port) for port in self.ports.values()):
            self._wait(begun)
        self._admin = AdminClient(self.client() | {"log_level": "0", "reconnect.backoff.max.ms": "50"})
        while not self._leads():
            self._wait(begun)
        return time.monotonic() - begun

    def _wait(self, begun: float) -> None:
        assert self.process.poll() is None, f"the broker exited:\n{self.log.read_text()}"
        assert time.monotonic() < begun + START_S, f"the broker does not answer after {START_S} s:\n{self.log.read_text()}"
        time.sleep(0.02)

    def _leads(self, name: str = "", partitions: int = 0) -> bool:
        try:
            seen = self._admin.list_topics(timeout=2)
        except KafkaException:
            return False
        has = not name or name in seen.topics and len(seen.topics[name].partitions) == partitions
        return bool(seen.brokers) and has and all(part.leader == 1 for topic in seen.topics.values() for part in topic.partitions.values())

    def stop(self) -> None:
        """Ends it as an operator does."""
        assert self.process.poll() is None, f"the broker exited:\n{self.log.read_text()}"
        self.process.send_signal(signal.SIGTERM)
        # A JVM that SIGTERM ended well says 143.
        assert self.process.wait(STOP_S) in (0, 143), f"SIGTERM did not end the broker well:\n{self.log.read_text()}"

    def kill(self) -> None:
        """Ends it as a crash of the program does, if it runs: what it has written to files without fsync stays."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def restart(self) -> float:
        """Kills it if it runs, and starts it again on the same ports and data."""
        self.kill()
        return self.start()

    def pause(self) -> None:
        """It stops responding, and keeps its connections open."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    @property
    def admin(self) -> AdminClient:
        return self._admin

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        """`settings` are the topic's, with _ for their dots."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        self._admin.create_topics([topic])[name].result(START_S)
        self._wait_for_topic(name, partitions)

    def _wait_for_topic(self, name: str, partitions: int) -> None:
        """The controller has it, and the broker a little later."""
        until = time.monotonic() + START_S
        while not self._leads(name, partitions):
            assert time.monotonic() < until, f"the broker does not know the topic {name} after {START_S} s"
            time.sleep(0.02)

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(START_S)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """As when the time that the broker keeps records has passed for those with a smaller offset."""
        place = TopicPartition(topic, partition, before)
        self._admin.delete_records([place])[place].result(START_S)

    def corrupt(self, topic: str, partition: int, known: bytes) -> None:
        """Changes a byte on the disk, in the first message that contains `known`. The broker sends it unchecked."""
        for segment in sorted((self.data / f"{topic}-{partition}").glob("*.log")):
            at = segment.read_bytes().find(known)
            if at >= 0:
                with open(segment, "r+b") as file:
                    file.seek(at)
                    file.write(bytes([known[0] ^ 1]))
                return
        raise AssertionError(f"no message of {topic} contains {known!r}")


def jars() -> Path:
    """The folder with the broker's jars."""
    return downloaded("KAFKA_JARS", "jars", "kafka_2.13-*.jar")


def downloaded(variable: str, name: str, pattern: str) -> Path:
    """A folder that `cargo xtask test` fills by pom.xml. Without it a test is skipped, or fails if CI=true."""
    folder = Path(os.environ.get(variable) or REPOSITORY / "target/xtask-ingest" / name)
    if any(folder.glob(pattern)):
        return folder.resolve()
    why = f"{folder} has no {pattern}: see pom.xml, or set {variable}"
    if os.environ.get("CI") == "true":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def free_ports(count: int) -> list[int]:
    """Ports that are free now, and that no outgoing connection gets."""
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    for port in random.sample(range(10_000, low), 1000):
        with socket.socket() as tried:
            # As the broker does, which gets a port that a connection before it has left in TIME_WAIT.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
