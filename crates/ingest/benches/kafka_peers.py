"""Alerts from Kafka into a bucket: `fulgurite ingest kafka`, and a consumer in Python with boto3, in turn.

    cargo build --release --features kafka
    pip install -r tests/ingest/requirements.txt
    KAFKA_JARS=... python3 crates/ingest/benches/kafka_peers.py FOLDER [ALERTS]

FOLDER is for archives and the broker, and is removed at the end. The broker, the server and the consumers share the machine; the
alerts are in the page cache. An alert has three cutouts of 13 kB and 60 earlier detections: 65 kB. Each run has a server on a new
archive. The peer sends its requests from 16 threads, for a tenth of the alerts, and commits nothing.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPOSITORY / "tests/ingest"), str(REPOSITORY / "tests/s3")]
os.environ.setdefault("FULGURITE_BIN", str(REPOSITORY / "target/release/fulgurite"))

import fastavro
from confluent_kafka import Consumer, Producer

import alerts
from broker import Broker, jars
from serving import Own, connect

ROUNDS = 3
PARTITIONS = 6
POOL = 300
OURS = {"cutouts": [], "packets": ["--packets-only", "--packet", "{candid}"], "cutouts and packets": ["--packet", "packets/{candid}"]}


def number(value: int) -> bytes:
    """As Avro encodes it."""
    value <<= 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def produce(broker: Broker, count: int) -> None:
    """Alerts are made from a pool, with other identifiers of the same length."""
    pool = [alerts.ztf(each, history=60) for each in range(POOL)]
    packets = [(number(alert["candid"]), alerts.container("ztf", alert)) for alert in pool]
    producer = Producer(broker.client() | {"acks": "all", "linger.ms": "5", "queue.buffering.max.kbytes": "200000"})
    begun = time.monotonic()
    for each in range(count):
        candid, packet = packets[each % POOL]
        packet = packet.replace(candid, number(3_000_000_000_000_000_000 + each))
        while True:
            try:
                producer.produce("ztf", packet)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush()
    print(f"produced {count} alerts of {len(packets[0][1])} bytes: {count / (time.monotonic() - begun):.0f}/s")


def ours(server: Own, broker: Broker, group: str, options: list[str]) -> str:
    keys = {"AWS_ACCESS_KEY_ID": server.account.access_key, "AWS_SECRET_ACCESS_KEY": server.account.secret_key}
    where = ["--brokers", broker.address(), "--topic", "ztf", "--group", group, "--until-end", "--bucket", "alerts"]
    command = [str(server.program), "--json", "ingest", "kafka", *where, *options]
    begun = time.monotonic()
    ran = subprocess.run(command, env=os.environ | keys | {"AWS_ENDPOINT_URL": server.endpoint}, stdout=subprocess.PIPE, check=True)
    took, done = time.monotonic() - begun, json.loads(ran.stdout)
    return f"{done['alerts'] / took:6.0f} alerts/s {done['stored'] / took:6.0f} objects/s {done['bytes'] / took / 1e6:6.1f} MB/s"


def peer(server: Own, broker: Broker, group: str, count: int) -> str:
    s3 = connect(server.server, server.account)
    consumer = Consumer(broker.client() | {"group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["ztf"])
    begun, done, pending = time.monotonic(), 0, []
    with ThreadPoolExecutor(16) as pool:
        while done < count:
            message = consumer.poll(1)
            if message is None or message.error():
                continue
            for alert in fastavro.reader(io.BytesIO(message.value())):
                for name in alerts.CUTOUTS:
                    key = f"{alert['objectId']}/{alert['candid']}/{name}"
                    pending.append(pool.submit(s3.put_object, Bucket="alerts", Key=key, Body=alert[name]["stampData"]))
            done += 1
            if len(pending) > 200 or done == count:
                for put in pending:
                    put.result()
                pending = []
    took = time.monotonic() - begun
    consumer.close()
    return f"{done / took:6.0f} alerts/s {3 * done / took:6.0f} objects/s"


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 15_000
    broker = Broker(folder / "kafka", jars(), quick=True)
    try:
        broker.start()
        broker.create_topic("ztf", PARTITIONS)
        produce(broker, count)
        for turn in range(ROUNDS):
            for what in [*OURS, "Python, boto3: cutouts"]:
                place, group = folder / "s3", f"{what} {turn}"
                place.mkdir()
                with Own(place) as server:
                    connect(server.server, server.account).create_bucket(Bucket="alerts")
                    done = ours(server, broker, group, OURS[what]) if what in OURS else peer(server, broker, group, count // 10)
                shutil.rmtree(place)
                print(f"{what:24} {done}", flush=True)
        broker.stop()
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
