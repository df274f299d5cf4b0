"""`fulgurite ingest kafka` while it, the broker and the server are killed: nothing is lost, nothing stored twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

import alerts
from broker import Broker
from conftest import INGEST_S, Bucket, produce
from serving import Own, wait_until
from test_kafka import cutouts

PARTITIONS = 4
KILLS = 60 if "FULGURITE_LONG" in os.environ else 8
# More arrive between two kills than the second one waits for.
ALERTS = 75 * KILLS


class Stream:
    """Alerts that a survey sends meanwhile, each until the broker has it."""

    def __init__(self, broker: Broker, topic: str):
        self.made = [alerts.ztf(number, history=5) for number in range(ALERTS)]
        self.failures: list[object] = []
        # The broker is away for seconds at a time.
        self._producer = Producer(broker.client() | {"acks": "all", "enable.idempotence": "true", "message.timeout.ms": str(INGEST_S * 1000)})
        self._topic, self._go_on = topic, threading.Semaphore(0)
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        for alert in self.made:
            self._go_on.acquire()
            told = lambda error, _: self.failures.append(error) if error else None
            self._producer.produce(self._topic, alerts.container("ztf", alert), key=str(alert["candid"]), on_delivery=told)
            self._producer.poll(0)
        self.left = self._producer.flush(INGEST_S)

    def release(self, count: int) -> None:
        for _ in range(count):
            self._go_on.release()

    def end(self) -> None:
        self.release(ALERTS)
        self._thread.join(INGEST_S)
        assert self.left == 0 and not self.failures


class Running:
    """Consumers of one group, of which one that was killed is started again."""

    def __init__(self, bucket: Bucket, broker: Broker, topic: str, count: int):
        where = ["--brokers", broker.address(), "--topic", topic, "--group", topic, "--connections", "8"]
        quick = ["session.timeout.ms=2000", "heartbeat.interval.ms=300", "reconnect.backoff.max.ms=500", "auto.commit.interval.ms=100"]
        self.arguments = ["kafka", *where, *(word for setting in quick for word in ("--set", setting))]
        self.bucket = bucket
        # Next to the server's; pytest keeps both if the test fails.
        self.log = bucket.server.log.with_name("ingest.log")
        self.processes = [self._start() for _ in range(count)]

    def _start(self) -> subprocess.Popen:
        with open(self.log, "ab") as log:
            command = self.bucket.command(*self.arguments)
            return subprocess.Popen(command, env=self.bucket.environment, stdout=subprocess.PIPE, stderr=log)

    def kill(self, which: int) -> None:
        assert self.processes[which].poll() is None, "a consumer exited"
        self.processes[which].kill()
        self.processes[which].communicate()
        self.processes[which] = self._start()

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.communicate(timeout=INGEST_S)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def own_server(tmp_path) -> Iterator[Own]:
    with Own(tmp_path) as server:
        yield server


def test_kills_lose_and_double_nothing(own_broker: Broker, own_server: Own):
    chance = random.Random(20261128)
    bucket = Bucket(own_server, "alerts")
    own_broker.create_topic("ztf", PARTITIONS)
    stream = Stream(own_broker, "ztf")
    running = Running(bucket, own_broker, "ztf", 2)
    try:
        for number in range(KILLS):
            # While alerts are stored: after a few objects more than before.
            wanted = len(bucket.versions()) + chance.randint(1, 60)
            stream.release(ALERTS // (KILLS + 1))
            wait_until("consumers store objects", lambda wanted=wanted: len(bucket.versions()) >= wanted)
            match number % 4:
                case 0 | 2:
                    running.kill(chance.randrange(2))
                case 1:
                    own_broker.restart()
                case 3:
                    # A server that starts again has another port, so its consumers are told where.
                    running.stop()
                    own_server.kill()
                    own_server.start()
                    bucket.connect()
                    running.processes = [running._start() for _ in range(2)]
        stream.end()
        running.stop()
    finally:
        running.end()
    rest = bucket.kafka(own_broker, "ztf", group="ztf")
    assert rest.status == 0, rest
    assert bucket.contents() == cutouts(*stream.made)
    assert bucket.dead_letters() == {}


def test_a_server_that_is_away_is_waited_for(own_broker: Broker, own_server: Own):
    """Nothing is committed that isn't stored, and nothing becomes a dead letter."""
    bucket = Bucket(own_server, "alerts")
    own_broker.create_topic("ztf")
    made = [alerts.ztf(number) for number in range(20)]
    producer = Producer(own_broker.client() | {"acks": "all"})
    for alert in made:
        producer.produce("ztf", alerts.container("ztf", alert))
    assert producer.flush(INGEST_S) == 0
    # It listens, and answers nothing.
    own_server.process.send_signal(signal.SIGSTOP)
    command = bucket.command("kafka", "--brokers", own_broker.address(), "--topic", "ztf", "--until-end")
    with subprocess.Popen(command, env=bucket.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        own_server.process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=INGEST_S)
    assert process.returncode == 0, (out, err)
    assert json.loads(out.splitlines()[-1])["alerts"] == 20
    assert bucket.contents() == cutouts(*made)


def test_partitions_that_are_taken_away_are_no_end(own_broker: Broker, own_server: Own):
    """While the broker is silent for longer than the session, the consumer has no partitions."""
    bucket = Bucket(own_server, "alerts")
    own_broker.create_topic("ztf")
    made = [alerts.ztf(number, history=3) for number in range(150)]
    produce(own_broker, "ztf", *(alerts.container("ztf", alert) for alert in made))
    slow = ["--buffer", "200 KiB", "--connections", "1", "--set", "session.timeout.ms=1000", "--set", "heartbeat.interval.ms=200"]
    slow += ["--set", "queued.max.messages.kbytes=100", "--set", "reconnect.backoff.max.ms=500"]
    command = bucket.command("kafka", "--brokers", own_broker.address(), "--topic", "ztf", "--until-end", *slow)
    with subprocess.Popen(command, env=bucket.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until("it stores objects", lambda: len(bucket.versions()) > 20)
        own_server.process.send_signal(signal.SIGSTOP)
        own_broker.pause()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        own_server.process.send_signal(signal.SIGCONT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        own_broker.resume()
        out, err = process.communicate(timeout=INGEST_S)
    assert process.returncode == 0, (out, err)
    assert bucket.contents() == cutouts(*made)
