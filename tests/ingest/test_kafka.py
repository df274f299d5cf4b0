"""`fulgurite ingest kafka` with Apache Kafka: what is stored, what is not, and what is committed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import alerts
from broker import USER, PASSWORD, Broker
from conftest import INGEST_S, Bucket, produce, written
from registry import Apicurio, StandIn, stand_in
from serving import wait_until

KEY = "{objectId}/{candid}/{field}"


def cutouts(*made: alerts.Alert) -> dict[str, bytes]:
    """What is to be stored of ZTF's alerts, under the default keys."""
    return {
        f"{alert['objectId']}/{alert['candid']}/{name}": alert[name]["stampData"]
        for alert in made
        for name in alerts.CUTOUTS
        if alert[name] is not None
    }


def committed(broker: Broker, group: str, topic: str, partition: int = 0) -> int:
    consumer = Consumer(broker.client() | {"group.id": group})
    try:
        return consumer.committed([TopicPartition(topic, partition)], timeout=INGEST_S)[0].offset
    finally:
        consumer.close()


def test_cutouts_are_stored_as_they_are(broker: Broker, bucket: Bucket, unused):
    topic, group = unused("ztf"), unused("group")
    broker.create_topic(topic, 3)
    made = [alerts.ztf(number) for number in range(30)]
    produce(broker, topic, *(alerts.container("ztf", alert) for alert in made))
    ended = bucket.kafka(broker, topic, group=group)
    assert ended.status == 0, ended
    assert bucket.contents() == cutouts(*made)
    assert ended.answer["alerts"] == 30 and ended.answer["stored"] == 90
    assert sum(max(committed(broker, group, topic, partition), 0) for partition in range(3)) == 30


def test_a_packet_is_stored_bit_for_bit(broker: Broker, bucket: Bucket, unused):
    topic = unused("ztf")
    broker.create_topic(topic)
    made = [alerts.ztf(number) for number in range(3)]
    packets = [alerts.container("ztf", alert, codec=codec) for alert, codec in zip(made, ("null", "deflate", "null"), strict=True)]
    produce(broker, topic, *packets)
    ended = bucket.kafka(broker, topic, "--packet", "packets/{candid}.avro", "--key", "cutouts/{candid}-{field}.fits.gz")
    assert ended.status == 0, ended
    kept = {f"packets/{alert['candid']}.avro": packet for alert, packet in zip(made, packets, strict=True)}
    kept |= {f"cutouts/{alert['candid']}-{name}.fits.gz": alert[name]["stampData"] for alert in made for name in alerts.CUTOUTS}
    assert bucket.contents() == kept


def test_a_delivery_again_is_not_stored_again(broker: Broker, bucket: Bucket, unused):
    topic = unused("ztf")
    broker.create_topic(topic)
    made = [alerts.ztf(number) for number in range(10)]
    # Delivered twice in the topic already.
    produce(broker, topic, *(alerts.container("ztf", alert) for alert in made + made))
    assert bucket.kafka(broker, topic).answer["already_stored"] == 30
    again = bucket.kafka(broker, topic)
    assert again.status == 0 and again.answer["stored"] == 0 and again.answer["already_stored"] == 60
    assert bucket.contents() == cutouts(*made)


def test_a_bad_packet_becomes_a_dead_letter_and_stops_no_other(broker: Broker, bucket: Bucket, unused):
    topic, group = unused("ztf"), unused("group")
    broker.create_topic(topic)
    good = [alerts.container("ztf", alerts.ztf(number)) for number in range(3)]
    bad = {
        1: (good[1][: len(good[1]) // 2], "damaged: it ends early"),
        2: (b"not Avro at all", "doesn't begin with"),
        4: (alerts.container("lsst", alerts.lsst(7)), "no field `objectId`"),
        5: (good[2][:-1] + b"?", "marker is wrong"),
        6: (b"", "doesn't begin with"),
    }
    produce(broker, topic, good[0], bad[1][0], bad[2][0], good[1], bad[4][0], bad[5][0], None, good[2])
    ended = bucket.kafka(broker, topic, group=group)
    assert ended.status == 1 and ended.answer["alerts"] == 3 and ended.answer["dead_letters"] == 5
    assert bucket.contents() == cutouts(*(alerts.ztf(number) for number in range(3)))
    letters = bucket.dead_letters()
    assert set(letters) == {f"{topic}/0/{offset}" for offset in bad}
    for offset, (packet, why) in bad.items():
        content, reason = letters[f"{topic}/0/{offset}"]
        assert content == packet and why in reason
        assert f"{topic} 0 {offset}: {reason}" in ended.text
    # They count as read, and a second run finds them stored.
    assert committed(broker, group, topic) == 8
    assert bucket.kafka(broker, topic).answer["dead_letters"] == 5
    assert bucket.dead_letters() == letters


def test_another_content_under_the_key_is_never_replaced(broker: Broker, bucket: Bucket, unused):
    topic = unused("ztf")
    broker.create_topic(topic)
    alert = alerts.ztf(1)
    taken = f"{alert['objectId']}/{alert['candid']}/cutoutTemplate"
    for content in (b"x" * len(alert["cutoutTemplate"]["stampData"]), b"shorter"):
        bucket.s3.delete_object(Bucket=bucket.name, Key=taken)
        bucket.s3.put_object(Bucket=bucket.name, Key=taken, Body=content)
        ended = bucket.kafka(broker, topic) if content == b"shorter" else (produce(broker, topic, alerts.container("ztf", alert)), bucket.kafka(broker, topic))[1]
        assert ended.status == 1 and "another content" in ended.text and taken in ended.text
        assert bucket.content(taken) == content
    assert list(bucket.dead_letters()) == [f"{topic}/0/0"]


def test_schemas_come_from_a_registry(broker: Broker, bucket: Bucket, registry: StandIn, unused):
    topic = unused("lsst")
    broker.create_topic(topic)
    number = registry.register(alerts.parsed("lsst"), schema_id=703)
    made = [alerts.lsst(each, without=("cutoutTemplate",) if each == 3 else ()) for each in range(5)]
    produce(broker, topic, *(alerts.confluent("lsst", alert, number) for alert in made), alerts.confluent("lsst", alerts.lsst(9), 704))
    # The registry is ill for a while.
    registry.failures = [503, 429, 500]
    key = "{diaSource.diaObjectId}/{diaSourceId}/{field}"
    ended = bucket.kafka(broker, topic, "--registry", registry.url, "--key", key, "--packet", "{diaSourceId}")
    assert ended.status == 1 and ended.answer["alerts"] == 5 and ended.answer["null_cutouts"] == 1
    assert bucket.dead_letters()[f"{topic}/0/5"][1] == "schema 704: the registry doesn't have it"
    kept = {f"{alert['diaSourceId']}": alerts.confluent("lsst", alert, number) for alert in made}
    for alert in made:
        names = [name for name in alerts.CUTOUTS if alert[name] is not None]
        kept |= {f"{alert['diaSource']['diaObjectId']}/{alert['diaSourceId']}/{name}": alert[name] for name in names}
    assert bucket.contents() == kept


def test_schemas_come_from_apicurio(broker: Broker, bucket: Bucket, real_registry: Apicurio, unused):
    topic = unused("lsst")
    broker.create_topic(topic)
    number = real_registry.register(alerts.parsed("lsst"), f"{topic}-value")
    produce(broker, topic, alerts.confluent("lsst", alerts.lsst(1), number), alerts.confluent("lsst", alerts.lsst(2), number + 1))
    ended = bucket.kafka(broker, topic, "--registry", real_registry.url, "--key", "{diaSourceId}/{field}")
    assert ended.answer["alerts"] == 1 and ended.answer["dead_letters"] == 1
    assert bucket.contents() == {f"{alerts.lsst(1)['diaSourceId']}/{name}": alerts.lsst(1)[name] for name in alerts.CUTOUTS}


def test_a_registry_that_wants_a_password(broker: Broker, bucket: Bucket, unused):
    topic = unused("lsst")
    broker.create_topic(topic)
    with stand_in(user="survey", password="open sesame") as registry:
        number = registry.register(alerts.parsed("lsst"))
        produce(broker, topic, alerts.confluent("lsst", alerts.lsst(1), number))
        arguments = ["--registry", registry.url, "--key", "{diaSourceId}/{field}"]
        refused = bucket.kafka(broker, topic, *arguments, SCHEMA_REGISTRY_USER_INFO="survey:wrong")
        assert refused.status == 1 and "schema registry: 401" in refused.text and bucket.contents() == {}
        ended = bucket.kafka(broker, topic, *arguments, SCHEMA_REGISTRY_USER_INFO="survey:open sesame")
        assert ended.status == 0 and len(bucket.contents()) == 3


def test_a_message_with_a_wrong_checksum_stops_it(own_broker: Broker, bucket: Bucket):
    """Which message it is the broker doesn't say, so it can be no dead letter."""
    own_broker.create_topic("ztf")
    produce(own_broker, "ztf", alerts.container("ztf", alerts.ztf(1)))
    own_broker.corrupt("ztf", 0, alerts.ztf(1)["cutoutScience"]["stampData"][100:140])
    ended = bucket.kafka(own_broker, "ztf")
    assert ended.status == 1 and "checksum of a message is wrong" in ended.text
    assert bucket.contents() == {}


def test_a_schema_from_a_file(broker: Broker, bucket: Bucket, unused, tmp_path):
    alert = alerts.lsst(1, without=("diaObject",))
    schema = written(tmp_path / "lsst.avsc", json.dumps(alerts.parsed("lsst")).encode())
    kept = {f"{alert['diaSourceId']}-{name}": alert[name] for name in alerts.CUTOUTS}
    arguments = ["--schema", str(schema), "--key", "{diaSourceId}-{field}"]
    for packet, more in ((alerts.schemaless("lsst", alert), []), (alerts.confluent("lsst", alert, 9), ["--schema-header"])):
        topic = unused("lsst")
        broker.create_topic(topic)
        produce(broker, topic, packet, packet + b"!", packet[:-1])
        ended = bucket.kafka(broker, topic, *arguments, *more)
        assert ended.answer["alerts"] == 1 and ended.answer["dead_letters"] == 2
        assert bucket.contents() == kept
        reasons = [reason for key, (_, reason) in bucket.dead_letters().items() if key.startswith(topic)]
        assert reasons == ["the packet has bytes after the end of the alert", "the packet ends early"]


def test_a_field_that_is_null_gives_no_key(broker: Broker, bucket: Bucket, unused, tmp_path):
    topic = unused("lsst")
    broker.create_topic(topic)
    schema = written(tmp_path / "lsst.avsc", json.dumps(alerts.parsed("lsst")).encode())
    produce(broker, topic, alerts.schemaless("lsst", alerts.lsst(1, without=("diaObject",))))
    ended = bucket.kafka(broker, topic, "--schema", str(schema), "--key", "{diaObject.diaObjectId}/{field}")
    assert ended.status == 1 and "`diaObject.diaObjectId` is null" in ended.text
    assert bucket.contents() == {}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_with_tls_and_a_password(broker: Broker, bucket: Bucket, unused, mechanism: str):
    topic = unused("ztf")
    broker.create_topic(topic)
    produce(broker, topic, alerts.container("ztf", alerts.ztf(1)))
    where = ["--brokers", broker.address("SASL_SSL"), "--topic", topic, "--group", unused("group"), "--until-end"]
    login = ["--broker-ca-file", str(broker.authority.path), "--user", USER, "--sasl", mechanism]
    refused = bucket.ingest("kafka", *where, *login, KAFKA_PASSWORD="wrong")
    assert refused.status == 1 and "uthentication" in refused.text and PASSWORD not in refused.text
    ended = bucket.ingest("kafka", *where, *login, KAFKA_PASSWORD=PASSWORD)
    assert ended.status == 0 and bucket.contents() == cutouts(alerts.ztf(1))


def test_messages_that_the_broker_deleted_are_reported(broker: Broker, bucket: Bucket, unused):
    topic, group = unused("ztf"), unused("group")
    broker.create_topic(topic)
    packets = [alerts.container("ztf", alerts.ztf(number)) for number in range(8)]
    produce(broker, topic, *packets[:2])
    assert bucket.kafka(broker, topic, group=group).status == 0
    produce(broker, topic, *packets[2:])
    broker.delete_records(topic, 0, 5)
    ended = bucket.kafka(broker, topic, group=group)
    assert ended.status == 1 and ended.answer["failed"] == 3
    assert f"{topic} 0: 3 messages from offset 2 on were deleted by the broker" in ended.text
    assert bucket.contents() == cutouts(*(alerts.ztf(number) for number in (0, 1, 5, 6, 7)))


def test_it_runs_until_it_is_stopped(broker: Broker, bucket: Bucket, unused):
    topic, group = unused("ztf"), unused("group")
    command = bucket.command("kafka", "--brokers", broker.address(), "--topic", f"^{topic}-.*", "--group", group, "--set", "topic.metadata.refresh.interval.ms=500")
    with subprocess.Popen(command, env=bucket.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # A night's topic appears while it runs.
        broker.create_topic(f"{topic}-20261128")
        produce(broker, f"{topic}-20261128", *(alerts.container("ztf", alerts.ztf(number)) for number in range(5)))
        wait_until("all cutouts are stored", lambda: len(bucket.versions()) == 15)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=INGEST_S)
    assert process.returncode == 0, (out, err)
    assert json.loads(out)["alerts"] == 5
    assert committed(broker, group, f"{topic}-20261128") == 5


def test_what_can_not_work_is_said_at_once(broker: Broker, bucket: Bucket, unused):
    topic = unused("ztf")
    unknown = bucket.kafka(broker, topic)
    assert unknown.status == 1 and "nknown topic" in unknown.text, unknown
    broker.create_topic(topic)
    for wrong, why in (
        (["--key", "{candid}"], "same key"),
        (["--key", "{candid"], "brace"),
        (["--packet", "{field}"], "can't be in the pattern for packets"),
        (["--set", "enable.auto.commit=false"], "can't be set"),
        (["--set", "no.such.setting=1"], "no.such.setting"),
        (["--schema", "/no/such/file"], "No such file"),
        (["--dead-letters", "../x/"], "segment"),
        (["--set", "sasl.password:hunter2"], "--set: expected NAME=VALUE"),
        (["--registry", "http://user:hunter2@127.0.0.1:1"], "can't contain a name and password"),
    ):
        ended = bucket.kafka(broker, topic, *wrong)
        assert ended.status == 2 and why in ended.text and "hunter2" not in ended.text, (wrong, ended)
    bucket.name = "no-such-bucket"
    ended = bucket.kafka(broker, topic)
    assert ended.status == 1 and "no bucket `no-such-bucket`" in ended.text


def test_until_end_fails_if_no_broker_ever_answers(bucket: Bucket):
    def tried(nowhere: str):
        return bucket.ingest("kafka", "--brokers", nowhere, "--topic", "ztf", "--group", "group", "--until-end")

    nowhere = {"127.0.0.1:1": "refused", "no-such-host.invalid:9092": "no-such-host.invalid"}
    with ThreadPoolExecutor() as pool:
        for ended, why in zip(pool.map(tried, nowhere), nowhere.values(), strict=True):
            last = ended.text.strip().splitlines()[-1]
            assert ended.status == 1 and "no Kafka broker answered within 30 s" in last and why in last, ended


def test_a_server_that_denies_puts_ends_it_and_nothing_is_committed(broker: Broker, bucket: Bucket, unused):
    topic, group = unused("ztf"), unused("group")
    broker.create_topic(topic)
    produce(broker, topic, alerts.container("ztf", alerts.ztf(1)))
    denied = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket.name}/*"}
    bucket.s3.put_bucket_policy(Bucket=bucket.name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [denied]}))
    ended = bucket.kafka(broker, topic, group=group)
    assert ended.status == 1 and "the server refuses" in ended.text and "AccessDenied" in ended.text
    bucket.s3.delete_bucket_policy(Bucket=bucket.name)
    assert bucket.contents() == {}
    assert bucket.kafka(broker, topic, group=group).status == 0
    assert bucket.contents() == cutouts(alerts.ztf(1))


def test_a_committed_offset_beyond_the_end_is_that_of_an_earlier_topic(broker: Broker, bucket: Bucket, unused):
    topic, group = unused("ztf"), unused("group")
    broker.create_topic(topic)
    made = [alerts.ztf(number) for number in range(5)]
    produce(broker, topic, *(alerts.container("ztf", alert) for alert in made))
    consumer = Consumer(broker.client() | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 100)], asynchronous=False)
    consumer.close()
    assert bucket.kafka(broker, topic, group=group).status == 0
    assert bucket.contents() == cutouts(*made)
    # Else the topic would be skipped up to there when it has grown.
    assert committed(broker, group, topic) == 5


def test_an_address_that_is_no_registry_loses_nothing(broker: Broker, bucket: Bucket, registry: StandIn, unused):
    topic, group = unused("lsst"), unused("group")
    broker.create_topic(topic)
    number = registry.register(alerts.parsed("lsst"))
    produce(broker, topic, alerts.confluent("lsst", alerts.lsst(1), number))
    arguments = ["--registry", registry.url, "--key", "{diaSourceId}/{field}"]
    plain, html = b'{"error_code": 404, "message": "HTTP 404 Not Found"}', b"<html>Welcome</html>"
    answers = [(404, plain), (200, b'{"status": "ok"}'), (200, b"[]"), (200, b'{"schema": null}'), (200, html), (301, html), (204, b"")]
    for status, body in answers:
        registry.answers = [(status, body)]
        refused = bucket.kafka(broker, topic, *arguments, group=group)
        said = "is the address that of a registry?" if status == 200 else f"schema registry: {status}"
        assert refused.status == 1 and said in refused.text and bucket.dead_letters() == {}, (status, body, refused)
    assert bucket.kafka(broker, topic, *arguments, group=group).answer["alerts"] == 1


def test_a_schema_that_the_registry_gets_a_little_later_is_waited_for(broker: Broker, bucket: Bucket, registry: StandIn, unused):
    """The replica that answers may not have it yet."""
    topic = unused("lsst")
    broker.create_topic(topic)
    number = registry.register(alerts.parsed("lsst"))
    produce(broker, topic, alerts.confluent("lsst", alerts.lsst(1), number))
    registry.answers = [(404, b'{"error_code": 40403, "message": "Schema not found"}')] * 2
    ended = bucket.kafka(broker, topic, "--registry", registry.url, "--key", "{diaSourceId}/{field}")
    assert ended.status == 0 and ended.answer["alerts"] == 1 and "waiting: schema 1: the registry doesn't have it" in ended.text, ended


def test_packets_alone_need_no_cutouts(broker: Broker, bucket: Bucket, unused):
    topic = unused("lsst")
    broker.create_topic(topic)
    packet = alerts.container("lsst", alerts.lsst(1))
    produce(broker, topic, packet)
    ended = bucket.kafka(broker, topic, "--packets-only", "--packet", "{diaSourceId}.avro")
    assert ended.status == 0 and bucket.contents() == {f"{alerts.lsst(1)['diaSourceId']}.avro": packet}, ended


def test_a_run_that_is_stopped_while_it_waits_says_so(bucket: Bucket):
    command = bucket.command("kafka", "--brokers", "127.0.0.1:1", "--topic", "ztf", "--group", "group", "--until-end")
    with started(bucket, command) as process:
        next(line for line in process.stderr if "waiting" in line)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=INGEST_S)
    lines = [json.loads(line) for line in err.splitlines()]
    assert process.returncode == 1 and {"kind": "trouble", "text": "stopped; the same command goes on from here"} in lines, err


def test_messages_deleted_at_the_end_are_reported(broker: Broker, bucket: Bucket, unused):
    """Nothing follows them, so no offset shows that they are missing."""
    topic, group = unused("ztf"), unused("group")
    broker.create_topic(topic)
    packets = [alerts.container("ztf", alerts.ztf(number)) for number in range(8)]
    produce(broker, topic, *packets[:2])
    assert bucket.kafka(broker, topic, group=group).status == 0
    produce(broker, topic, *packets[2:])
    broker.delete_records(topic, 0, 8)
    ended = bucket.kafka(broker, topic, group=group)
    assert ended.status == 1 and ended.answer["failed"] == 6, ended


def test_markers_of_transactions_are_no_messages(broker: Broker, bucket: Bucket, unused):
    topic = unused("ztf")
    broker.create_topic(topic)
    producer = Producer(broker.client() | {"transactional.id": unused("producer")})
    producer.init_transactions(INGEST_S)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, alerts.container("ztf", alerts.ztf(number)))
        producer.abort_transaction(INGEST_S) if number % 2 else producer.commit_transaction(INGEST_S)
    ended = bucket.kafka(broker, topic, group=unused("group"))
    assert ended.status == 0 and bucket.contents() == cutouts(*(alerts.ztf(number) for number in (0, 2, 4)))


def test_the_group_of_a_file_is_used(broker: Broker, bucket: Bucket, unused, tmp_path):
    topic, group = unused("ztf"), unused("group")
    broker.create_topic(topic)
    produce(broker, topic, alerts.container("ztf", alerts.ztf(1)))
    settings = written(tmp_path / "kafka.properties", f"# the survey's\nmetadata.broker.list={broker.address()}\ngroup.id = {group}\n".encode())
    ended = bucket.ingest("kafka", "--config", str(settings), "--topic", topic, "--until-end")
    assert ended.status == 0 and committed(broker, group, topic) == 1


@contextmanager
def started(bucket: Bucket, command: list[str]) -> Iterator[subprocess.Popen]:
    """A process that doesn't outlive a test that fails."""
    with subprocess.Popen(command, env=bucket.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def transactional(broker: Broker, name: str, **settings: str) -> Producer:
    producer = Producer(broker.client() | {"transactional.id": name} | {key.replace("_", "."): value for key, value in settings.items()})
    producer.init_transactions(INGEST_S)
    return producer


def test_a_topic_that_is_created_again_is_read_from_its_beginning(broker: Broker, bucket: Bucket, unused):
    """Also if it has more messages than the old one when they are first asked for: librdkafka goes on at the old offset."""
    topic, group = unused("ztf"), unused("group")
    broker.create_topic(topic)
    old, new = [alerts.ztf(number) for number in range(20)], [alerts.ztf(number) for number in range(100, 130)]
    produce(broker, topic, *(alerts.container("ztf", alert) for alert in old))
    command = bucket.command("kafka", "--brokers", broker.address(), "--topic", topic, "--group", group)
    with started(bucket, command) as process:
        wait_until("the old topic is stored and committed", lambda: committed(broker, group, topic) == 20)
        # All at once for a consumer that does nothing meanwhile.
        process.send_signal(signal.SIGSTOP)
        broker.delete_topic(topic)
        broker.create_topic(topic)
        produce(broker, topic, *(alerts.container("ztf", alert) for alert in new))
        process.send_signal(signal.SIGCONT)
        wait_until("the new topic is stored", lambda: len(bucket.versions()) >= 150)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=INGEST_S)
    assert process.returncode == 0, (out, err)
    assert bucket.contents() == cutouts(*old, *new)
    assert committed(broker, group, topic) == 30


def test_deleted_messages_are_reported_once(broker: Broker, bucket: Bucket, unused):
    """By the run that misses them."""
    topic, group = unused("ztf"), unused("group")
    broker.create_topic(topic)
    # A group that has seen the topic empty misses what is deleted after that.
    assert bucket.kafka(broker, topic, group=group).status == 0
    for number in range(2):
        produce(broker, topic, *(alerts.container("ztf", alerts.ztf(number)) for number in range(5)))
        broker.delete_records(topic, 0, 5 * (number + 1))
        missed = bucket.kafka(broker, topic, group=group)
        assert missed.status == 1 and missed.answer["failed"] == 5, missed
        again = bucket.kafka(broker, topic, group=group)
        assert again.status == 0 and again.answer["failed"] == 0, again


def test_a_marker_at_the_end_is_no_message_that_was_deleted(broker: Broker, bucket: Bucket, unused):
    topics, group = [unused("ztf"), unused("ztf")], unused("group")
    for topic in topics:
        broker.create_topic(topic)
        producer = transactional(broker, unused("producer"))
        producer.begin_transaction()
        producer.produce(topic, alerts.container("ztf", alerts.ztf(1)))
        producer.commit_transaction(INGEST_S)
    # Two partitions of the same number.
    assert bucket.kafka(broker, topics[0], "--topic", topics[1], group=group).status == 0
    for topic in topics:
        assert committed(broker, group, topic) == 2
        broker.delete_records(topic, 0, 2)
        emptied = bucket.kafka(broker, topic, group=group)
        assert emptied.status == 0 and emptied.answer["failed"] == 0, emptied


def test_a_transaction_that_has_not_ended_is_waited_for(broker: Broker, bucket: Bucket, unused):
    """Acknowledged messages lie behind it."""
    topic = unused("ztf")
    broker.create_topic(topic)
    produce(broker, topic, alerts.container("ztf", alerts.ztf(0)))
    producer = transactional(broker, unused("producer"))
    producer.begin_transaction()
    producer.produce(topic, alerts.container("ztf", alerts.ztf(1)))
    assert producer.flush(INGEST_S) == 0
    produce(broker, topic, alerts.container("ztf", alerts.ztf(2)))
    command = bucket.command("kafka", "--brokers", broker.address(), "--topic", topic, "--group", unused("group"), "--until-end")
    with started(bucket, command) as process:
        line = next(line for line in process.stderr if "transaction" in line)
        assert f"{topic} 0 can be read up to offset 1 so far" in line
        producer.abort_transaction(INGEST_S)
        out, err = process.communicate(timeout=INGEST_S)
    assert process.returncode == 0, (out, err)
    assert bucket.contents() == cutouts(alerts.ztf(0), alerts.ztf(2))


def test_a_compressed_message_that_is_damaged_stops_it(own_broker: Broker, bucket: Bucket):
    """Also where checksums aren't looked at."""
    own_broker.create_topic("ztf", compression_type="gzip")
    produce(own_broker, "ztf", alerts.container("ztf", alerts.ztf(1)))
    # The header of the compressed data.
    own_broker.corrupt("ztf", 0, b"\x1f\x8b\x08")
    checked, unchecked = bucket.kafka(own_broker, "ztf"), bucket.kafka(own_broker, "ztf", "--set", "check.crcs=false")
    assert checked.status == 1 and "checksum of a message is wrong" in checked.text and "ztf 0 at offset 0" in checked.text
    assert unchecked.status == 1 and "can't be decompressed" in unchecked.text and "ztf 0 at offset 0" in unchecked.text
