"""A server with a robotic library: restores move platters, survive a kill, and go round machines that are out of order.

The library runs a hundred times as fast as real time, and less where a test has to see it at work.
FULGURITE_LIBRARY_KILLS says how often it is killed while machines fail at random (4; 150 are about a day of the library).
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from google.protobuf.json_format import Parse
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from serving import Own, connect, wait_until

SETTINGS = '[library]\nlayout = "{layout}"\ntime_scale = {scale}\njournal = true\n\n[dashboard]\ntoken = "{token}"\n'
TOKEN = "a-token-of-32-letters-and-digits"
# A library that is set up at once.
MEDIUM = "[library]\nracks = 6\nslots = 20\n\n[shuttles]\ncount = 10\n\n[drives]\nleft = 5\nright = 5\n"
# Too small for a set.
TINY = "[library]\nracks = 1\nshelves = 1\nport_shelf = 0\n\n[shuttles]\ncount = 1\n\n[drives]\nleft = 1\nright = 0\n"
# A library in which one shuttle that stops makes several slots unreachable.
SMALL = "[library]\nracks = 3\nshelves = 8\nslots = 4\n\n[shuttles]\ncount = 8\n\n[drives]\nleft = 4\nright = 4\n"
# The same with machines that fail at random, each several times a day, and are repaired after minutes.
FAILING = MEDIUM + '\n[faults]\nshuttle_every = "30 min"\ndrive_every = "2 h"\nrepair = "10 min"\ndetection = "30 s"\n'
KILLS = int(os.environ.get("FULGURITE_LIBRARY_KILLS", "4"))
# A library in which requests wait for its only shuttle.
NARROW = "[library]\nracks = 6\nslots = 20\n\n[shuttles]\ncount = 1\n\n[drives]\nleft = 1\nright = 0\n"
REQUEST = {"Days": 1, "GlacierJobParameters": {"Tier": "Standard"}}


def made(folder: Path, platters: str, stores: int) -> Own:
    """An archive with sets of so many platters, and a server that is not started yet."""
    own = Own(folder)
    places = [f"--store={own.archive / f'd{number}'}" for number in range(1, stores + 1)]
    init = subprocess.run([str(own.program), "init", str(own.archive), "--set", platters, *places], capture_output=True, text=True, check=False)
    assert init.returncode == 0, init.stderr
    return own


@pytest.fixture
def own(tmp_path) -> Own:
    return made(tmp_path, "2+1", 3)


def settle(own: Own, scale: int, layout: str = "medium.toml") -> None:
    (own.archive / "medium.toml").write_text(MEDIUM)
    (own.archive / "service.toml").write_text(SETTINGS.format(layout=layout, scale=scale, token=TOKEN))


def client(own: Own):
    return connect(own.server, own.account)


def put(s3, own: Own, sets: int, each: int = 3) -> dict[str, bytes]:
    """Objects of GLACIER in this many sets, which the library takes in."""
    if "photos" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket="photos")
    bodies = {}
    for number in range(sets):
        for index in range(each):
            key = f"{number:03}/{index}"
            bodies[key] = random.Random(key).randbytes(15_000)
            s3.put_object(Bucket="photos", Key=key, Body=bodies[key], StorageClass="GLACIER")
        flushed = own.run("flush")
        assert flushed.returncode == 0, flushed.stderr
    wait_until("every platter is verified and stored", lambda: library(own)["platters_unverified"] == 0)
    return bodies


def ask(own: Own, *arguments: str) -> dict:
    asked = own.run("--json", *arguments)
    assert asked.returncode == 0, asked.stderr
    return json.loads(asked.stdout)


def library(own: Own) -> dict:
    return ask(own, "library", "status")


def restores(own: Own) -> dict:
    status, body = own.get("/-/restores", Authorization=f"Bearer {TOKEN}")
    assert status == 200, body
    return json.loads(body)


def request_all(s3, keys) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.restore_object(Bucket="photos", Key=key, RestoreRequest=REQUEST), keys))


def check_all(s3, bodies: dict[str, bytes]) -> None:
    for key, body in bodies.items():
        assert s3.head_object(Bucket="photos", Key=key)["Restore"].startswith('ongoing-request="false"')
        assert s3.get_object(Bucket="photos", Key=key)["Body"].read() == body


def journals(own: Own) -> list[Path]:
    return sorted((own.archive / "library").glob("*.journal"))


def replay(own: Own, journal: Path) -> dict:
    """What the controllers did is what the same controllers do again, and obeys the laws."""
    replayed = ask(own, "twin", "replay", "--check", str(journal))
    assert replayed["same"] and replayed["laws"] == "hold"
    return replayed


def test_restores_are_read_by_drives(own):
    settle(own, 100, "early")
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=3, each=10)
        request_all(s3, bodies)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
        state = library(own)
        assert (state["restores"]["read"], state["restores"]["without_library"], state["restores"]["failed"]) == (30, 0, 0)
        # The sets with the objects, and perhaps others with backups of the server's own state.
        assert state["sets"] >= 3 and state["outside_sets"] == 0
    (journal,) = journals(own)
    replayed = replay(own, journal)
    assert replayed["complete"] and replayed["requests"] == replayed["ended"] == 30


def test_restores_survive_a_kill_and_every_journal_replays(own):
    settle(own, 100)
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=4)
    # Slow enough to be killed while platters move.
    settle(own, 1)
    own.start()
    s3 = client(own)
    request_all(s3, bodies)
    wait_until("platters move", lambda: any(shuttle["carries"] is not None for shuttle in library(own)["shuttles"]))
    # The state is kept, and the journal flushed, once a second.
    time.sleep(1.2)
    before = restores(own)
    assert before["open"] > 0 and before["library"]["requests_open"] > 0
    own.kill()
    settle(own, 100)
    with own:
        s3 = client(own)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
        state = library(own)
        assert state["restores"]["failed"] == state["restores"]["without_library"] == 0
        wait_until("every shuttle has put its platter back", lambda: all(shuttle["carries"] is None for shuttle in library(own)["shuttles"]))
    first, killed, last = (replay(own, journal) for journal in journals(own))
    assert first["complete"] and last["complete"] and not killed["complete"]
    # None was carried out twice: what had ended before the kill was not requested again, except for what ended in the last moment.
    assert killed["requests"] == len(bodies)
    assert last["requests"] == last["ended"] <= before["open"]


def test_a_library_whose_machines_fail_at_random_is_killed_again_and_again(own):
    """No restore is forgotten, none has wrong bytes, and every journal obeys the laws."""
    settle(own, 200)
    (own.archive / "medium.toml").write_text(FAILING)
    chance = random.Random(KILLS)
    bodies: dict[str, bytes] = {}
    own.start()
    client(own).create_bucket(Bucket="photos")
    lived, replayed = 0.0, 0
    for round in range(KILLS):
        s3 = client(own)
        new = {f"{round:03}/{index}": chance.randbytes(15_000) for index in range(3)}
        for key, body in new.items():
            s3.put_object(Bucket="photos", Key=key, Body=body, StorageClass="GLACIER")
        bodies |= new
        assert own.run("flush").returncode == 0
        request_all(s3, new)
        # As after the loss of the catalogue, the scrub has much to read.
        if round == 0:
            own.stop()
            assert own.run("catalogue", "rebuild").returncode == 0
            own.start()
        time.sleep(chance.uniform(0.5, 5.0))
        own.kill()
        session = replay(own, journals(own)[-1])
        replayed += session["commands"]
        lived += session["until_us"] / 1e6
        own.start()
    s3 = client(own)
    wait_until("all are restored", lambda: restores(own)["open"] == 0)
    check_all(s3, bodies)
    wait_until("all were verified", lambda: figure(own, "fulgurite_platters_never_verified") == 0)
    assert library(own)["restores"]["failed"] == 0 and replayed > 20 * KILLS
    own.stop()
    assert replay(own, journals(own)[-1])["complete"]
    assert own.run("verify", "--objects").returncode == 0
    print(f"{KILLS} kills in {lived / 3_600:.1f} h of the library, {replayed} commands")


def test_a_restore_says_what_it_waits_for_and_when_it_is_done(own):
    settle(own, 100)
    with own:
        bodies = put(client(own), own, sets=2)
    settle(own, 3)
    with own:
        s3 = client(own)
        request_all(s3, bodies)
        wait_until("all have an estimate", lambda: all(one["expected_s"] is not None for one in restores(own)["restores"]))
        one = restores(own)["restores"][0]
        assert one["bucket"] == "photos" and one["key"] in bodies and one["tier"] == "Standard"
        assert one["waits_for"].startswith(("a shuttle", "shuttle", "drive", "its bytes"))
        assert 0 <= one["expected_s"] < 120 and one["platters"]
        told = own.run("restores")
        assert told.returncode == 0 and "waits for" in told.stdout and "open restores" in told.stdout
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        estimates = library(own)["estimates"]
        assert estimates["compared"] == len(bodies) and estimates["median_error"] < 0.5


def traces(own: Own) -> list[list]:
    """The spans of each trace, by the format's own definition, apart from identifiers: OTLP writes those in hexadecimal digits."""
    in_base_64 = lambda found: f'"{found[1]}":"{base64.b64encode(bytes.fromhex(found[2])).decode()}"'
    lines = re.sub(r'"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"', in_base_64, (own.archive / "traces.jsonl").read_text()).splitlines()
    return [list(Parse(line, TracesData()).resource_spans[0].scope_spans[0].spans) for line in lines]


def attributes(span) -> dict:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@pytest.mark.parametrize("layout", ["medium.toml", "none"])
def test_traces_of_restores_are_read_by_opentelemetry(own, layout):
    settle(own, 100, layout)
    with open(own.archive / "service.toml", "a") as settings:
        settings.write('[traces]\nfile = "traces.jsonl"\n')
    with own:
        s3 = client(own)
        if layout == "none":
            s3.create_bucket(Bucket="photos")
            bodies = {"one": b"1" * 20_000, "two": b"2" * 20_000}
            for key, body in bodies.items():
                s3.put_object(Bucket="photos", Key=key, Body=body, StorageClass="GLACIER")
            assert own.run("flush").returncode == 0
        else:
            bodies = put(s3, own, sets=2)
        request_all(s3, bodies)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        wait_until("all traces are written", lambda: len(traces(own)) == len(bodies))
    found = traces(own)
    assert {attributes(spans[0])["fulgurite.key"] for spans in found} == set(bodies)
    assert len({spans[0].trace_id for spans in found}) == len(bodies)
    for root, *parts in found:
        assert root.name == "restore" and not root.parent_span_id and len(root.trace_id) == 16 and len(root.span_id) == 8
        assert attributes(root)["fulgurite.end"] == "read" and attributes(root)["fulgurite.bucket"] == "photos"
        names = [span.name for span in parts]
        if layout == "none":
            assert names == ["read from stores"]
        else:
            assert names.count("in the library") == names.count("before the library") == 1
            assert {"pick", "place", "mount", "read", "check bytes"} >= set(names) - {"in the library", "before the library"}
            # A restore whose platter was in a drive already has no more.
            assert {"read", "check bytes"} <= set(names)
        known = {root.span_id} | {span.span_id for span in parts}
        assert len(known) == 1 + len(parts) and all(span.parent_span_id in known for span in parts)
        for span in (root, *parts):
            assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano
    if layout != "none":
        assert any({"pick", "place", "mount"} <= {span.name for span in spans} for spans in found)


def test_nothing_of_restores_is_told_without_the_token(own):
    settle(own, 100)
    with own:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            status, body = own.get("/-/restores", **headers)
            assert status == 401 and "restores" not in json.loads(body)


def test_what_is_out_of_reach_is_recovered_from_other_platters(tmp_path):
    # The shuttle that stops holds one platter of a set, and may stand in the way of another one.
    own = made(tmp_path, "2+2", 4)
    (own.archive / "small.toml").write_text(SMALL)
    settle(own, 100, "small.toml")
    with own:
        bodies = put(client(own), own, sets=10)
    # Slow enough for a shuttle to fail with a platter.
    settle(own, 1, "small.toml")
    state = lambda: library(own)
    with own:
        request_all(client(own), bodies)
        wanted = {platter["number"] for restore in restores(own)["restores"] for platter in restore["platters"] or []}
        carrying = lambda: [number for number, shuttle in enumerate(state()["shuttles"]) if shuttle["carries"] in wanted]
        wait_until("a shuttle carries a platter that is wanted", carrying)
        shuttle = carrying()[0]
        for machine in (("shuttle", str(shuttle)), ("drive", "0")):
            assert own.run("library", "fault", *machine).returncode == 0
            again = own.run("library", "fault", *machine)
            assert again.returncode == 1 and "out of order already" in again.stderr
        assert shuttle in carrying()
    # The state is kept: machines that were out of order still are.
    settle(own, 100, "small.toml")
    with own:
        wait_until("the faults are noticed", lambda: state()["shuttles"][shuttle]["state"] == state()["drives"][0]["state"] == "out of order until it is repaired")
        assert shuttle in carrying()
        counts = lambda: state()["restores"]
        wait_until("all are restored, or wait for repairs", lambda: restores(own)["open"] == counts()["set_back"])
        assert counts()["recovered"] > 0 and counts()["next"] == 0
    with own:
        s3 = client(own)
        assert state()["shuttles"][shuttle]["state"] != "works"
        for machine in (("shuttle", str(shuttle)), ("drive", "0")):
            wait_until("it is repaired", lambda: own.run("library", "repair", *machine).returncode == 0)
            again = own.run("library", "repair", *machine)
            assert again.returncode == 1 and "it works" in again.stderr
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
        assert counts()["failed"] == 0
    for journal in journals(own):
        assert replay(own, journal)["complete"]


def test_a_fault_is_recorded_before_the_command_ends_and_stays_known(own):
    settle(own, 1)
    machines = [("shuttle", "1"), ("drive", "3")]
    states = lambda: {library(own)["shuttles"][1]["state"], library(own)["drives"][3]["state"]}
    with own:
        for machine in machines:
            assert own.run("library", "fault", *machine).returncode == 0
        own.kill()
        own.start()
        # The start of a server is long enough for anybody to see it.
        assert states() == {"out of order until it is repaired"}
        own.stop()
        own.start()
        for machine in machines:
            assert own.run("library", "repair", *machine).returncode == 0
        own.kill()
        own.start()
        assert states() == {"works"}


def test_restores_are_tried_again_as_soon_as_machines_are_repaired(own):
    settle(own, 20)
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=5)
        drives = range(len(library(own)["drives"]))
        for drive in drives:
            assert own.run("library", "fault", "drive", str(drive)).returncode == 0
        request_all(s3, bodies)
        waits = lambda: {one["waits_for"] for one in restores(own)["restores"]}
        wait_until("a restore says why it waits", lambda: waits() <= {"a repair: no drive works", "repairs: machines that are out of order block too many platters of its set"})
        begun = time.monotonic()
        for drive in drives:
            wait_until("it is repaired", lambda: own.run("library", "repair", "drive", str(drive)).returncode == 0)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        # A restore that waits for its next try does so for a minute.
        assert time.monotonic() - begun < 50
        check_all(s3, bodies)


def test_without_a_folder_for_journals_the_server_goes_on(own):
    settle(own, 100)
    (own.archive / "library").write_text("not a folder")
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=1)
        request_all(s3, bodies)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
        assert library(own)["journal"] is None
    assert "can't create the folder of the library's journals" in own.log.read_text()
    (own.archive / "library").unlink()
    (own.archive / "library").mkdir()
    (own.archive / "library" / "0000000000001.journal").touch()
    with own:
        assert library(own)["journal"] is not None
    (journal,) = journals(own)
    assert replay(own, journal)["complete"]


def test_platters_that_are_missing_are_noticed_before_their_turn(own):
    settle(own, 100)
    settings = own.archive / "service.toml"
    settings.write_text(settings.read_text() + "\n[scrub]\nrepair = false\n")
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=2)
        wait_until("every platter is verified", lambda: figure(own, "fulgurite_platters_never_verified") == 0)
    platters = sorted((own.archive / "d2" / "platters").iterdir())
    for platter in platters:
        platter.rename(own.archive / platter.name)
    with own:
        wait_until("they are missing", lambda: figure(own, "fulgurite_platters_unsound") == len(platters))
        request_all(client(own), bodies)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(client(own), bodies)
        assert not re.search(r"store d\d is absent", own.log.read_text())


def test_missing_platters_are_repaired_although_the_server_is_restarted(own):
    settle(own, 100)
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=6, each=1)
        wait_until("every platter is verified", lambda: figure(own, "fulgurite_platters_never_verified") == 0)
    platters = sorted((own.archive / "d2" / "platters").iterdir())
    for platter in platters:
        platter.unlink()
    # A little at a time, so that most of the work is left at each stop.
    settings = own.archive / "service.toml"
    settings.write_text(settings.read_text() + "\n[scrub]\nmib_per_s = 1\n")
    for _ in range(3):
        with own:
            wait_until("they are noticed", lambda: figure(own, "fulgurite_platters_unsound") > 0)
    settle(own, 100)
    with own:
        wait_until("all are there again", lambda: figure(own, "fulgurite_platters_unsound") == 0)
        assert sorted((own.archive / "d2" / "platters").iterdir()) == platters
        request_all(client(own), bodies)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(client(own), bodies)


def test_urgent_restores_overtake_those_of_the_same_platter(own):
    settle(own, 1, "narrow.toml")
    (own.archive / "narrow.toml").write_text(NARROW)
    settings = own.archive / "service.toml"
    settings.write_text(settings.read_text().replace("time_scale = 1", "time_scale = 100"))
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=1, each=60)
    settle(own, 10, "narrow.toml")
    with own:
        s3 = client(own)
        keys = sorted(bodies)
        tier = lambda name: {"Days": 1, "GlacierJobParameters": {"Tier": name}}
        for key in keys[:50]:
            s3.restore_object(Bucket="photos", Key=key, RestoreRequest=tier("Bulk"))
        wait_until("a drive reads", lambda: any(drive["does"] == "reading" for drive in library(own)["drives"]))
        urgent = keys[50:] + [key for key in keys[30:50:4] if "ongoing-request=\"true\"" in s3.head_object(Bucket="photos", Key=key)["Restore"]]
        for key in urgent:
            s3.restore_object(Bucket="photos", Key=key, RestoreRequest=tier("Expedited"))
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
    journal = journals(own)[-1]
    assert replay(own, journal)["ended"] == 60
    lines = journal.read_text().splitlines()
    asked = [line for line in lines if re.match(r"\d+ R\d+ by ", line)]
    # The objects are on two platters, and the second comes later.
    first = next(re.search(r" read (P\d+):", line)[1] for line in lines if re.match(r"> L0 D\d#\d+ read ", line))
    wanted = {line.split()[1] for line in (asked[keys.index(key)] for key in urgent) if f" {first}:" in line}
    # What ended after the last of them was asked for.
    last = max(index for index, line in enumerate(lines) if re.match(r"\d+ R\d+ (by|sooner) ", line))
    ended = [line.split()[1] for line in lines[last:] if re.match(r"> R\d+ read", line)]
    late = [request for request in ended if request in wanted]
    # The drive was reading one, and may have begun another.
    assert len(late) > 2 and set(ended[: len(late) + 2]) >= set(late), (ended, late)


def test_a_thousand_restores_at_once(own):
    settle(own, 100)
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=4, each=250)
        request_all(s3, bodies)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
        assert library(own)["restores"] == {"read": 1000, "recovered": 0, "without_library": 0, "failed": 0, "next": 0, "set_back": 0}
    (journal,) = journals(own)
    assert replay(own, journal)["ended"] == 1000
    # Reads of one platter share visits: far fewer than one for each object.
    assert journal.read_text().count(" mount P") < 100


def test_the_faster_tier_goes_first(own):
    settle(own, 100, "narrow.toml")
    (own.archive / "narrow.toml").write_text(NARROW)
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=8, each=1)
    settle(own, 20, "narrow.toml")
    with own:
        s3 = client(own)
        keys = sorted(bodies)
        tiers = dict.fromkeys(keys[:6], "Bulk") | {keys[6]: "Standard", keys[7]: "Expedited"}
        for key, tier in tiers.items():
            request = {"Days": 1, "GlacierJobParameters": {"Tier": tier}}
            s3.restore_object(Bucket="photos", Key=key, RestoreRequest=request)
        # One that was requested before is wanted sooner now.
        s3.restore_object(Bucket="photos", Key=keys[5], RestoreRequest={"Days": 1, "GlacierJobParameters": {"Tier": "Expedited"}})
        first = restores(own)["restores"][:3]
        assert {one["key"] for one in first[:2]} == {keys[5], keys[7]} and first[2]["key"] == keys[6]
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
    journal = journals(own)[-1]
    assert replay(own, journal)["ended"] == 8
    lines = journal.read_text().splitlines()
    asked = [line.split()[1] for line in lines if re.match(r"\d+ R\d+ by ", line)]
    ended = [line.split()[1] for line in lines if re.match(r"> R\d+ read", line)]
    assert any(re.match(rf"\d+ {asked[5]} sooner ", line) for line in lines)
    # The shuttle and the drives were busy with one or two platters when the faster tiers were requested.
    assert all(ended.index(asked[number]) < 5 for number in (5, 6, 7)), (asked, ended)
    assert max(ended.index(asked[number]) for number in (5, 7)) < ended.index(asked[6])


def test_an_object_on_several_platters_is_read_shard_by_shard(own):
    settings = own.archive / "fulgurite.toml"
    settings.write_text(re.sub(r"platter_mib = \d+", "platter_mib = 8", settings.read_text()))
    settle(own, 100)
    with own:
        s3 = client(own)
        s3.create_bucket(Bucket="photos")
        bodies = {"large": random.Random(1).randbytes(47_000_123)}
        s3.put_object(Bucket="photos", Key="large", Body=bodies["large"], StorageClass="GLACIER")
        assert own.run("flush").returncode == 0
        request_all(s3, bodies)
        wait_until("it is restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
        # Frames that two shards divide were checked too, or the whole object would have been read again.
        assert library(own)["restores"]["read"] == 1 and library(own)["sets"] >= 3


def test_damage_in_a_platter_is_repaired_from_its_set(own):
    settle(own, 100)
    with own:
        s3 = client(own)
        bodies = put(s3, own, sets=1)
    for platter in (own.archive / "d1").rglob("*.platter"):
        with open(platter, "r+b") as file:
            size = file.seek(0, 2)
            file.seek(4096)
            file.write(bytes(size - 8192))
    with own:
        s3 = client(own)
        request_all(s3, bodies)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)


def figure(own: Own, name: str) -> int:
    return int(next(line.split()[1] for line in own.get("/-/metrics")[1].splitlines() if line.startswith(f"{name} ")))


def test_the_scrub_reads_what_drives_verify(own):
    settle(own, 100)
    with own:
        put(client(own), own, sets=2)
        drives = range(len(library(own)["drives"]))
        for drive in drives:
            assert own.run("library", "fault", "drive", str(drive)).returncode == 0
    # No platter was verified as far as the new catalogue knows, and one is damaged.
    assert own.run("catalogue", "rebuild").returncode == 0
    platters = [json.loads(line) for line in own.run("--json", "platters").stdout.splitlines()]
    damaged = own.archive / platters[0]["store"] / "platters" / f"{platters[0]['platter']}.platter"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:10_000] + bytes(len(whole) // 3) + whole[10_000 + len(whole) // 3 :])
    with own:
        wait_until("the scrub asks for a drive", lambda: library(own)["scrub"]["state"] == "waiting for a drive")
        wait_until("every drive's fault is noticed", lambda: all(drive["state"].endswith("repaired") for drive in library(own)["drives"]))
        assert (figure(own, "fulgurite_scrub_platters_total"), figure(own, "fulgurite_scrub_bytes_total")) == (0, 0)
        for drive in drives:
            assert own.run("library", "repair", "drive", str(drive)).returncode == 0
        # One may have been in a drive when its fault was noticed: it was out of reach until the repair.
        wait_until("all are verified", lambda: figure(own, "fulgurite_scrub_platters_total") == len(platters))
        assert figure(own, "fulgurite_scrub_repaired_total") == 1 and damaged.read_bytes() == whole
        wait_until("the last one is at home", lambda: library(own)["platters_unverified"] == 0)
        scrub = library(own)["scrub"]
        assert (scrub["state"], scrub["read"]) == ("idle", len(platters))
        assert f"scrub: idle, {len(platters)} platters read" in own.run("library", "status").stdout
        assert 'fulgurite_library_scrubs_total{how="read"}' in own.get("/-/metrics")[1]
    journal = journals(own)[-1]
    replayed = replay(own, journal)
    assert replayed["requests"] == replayed["ended"] == len(platters) + scrub["out_of_reach"]
    lines = journal.read_text().splitlines()
    asked = {re.search(r" verify (P\d+) ", line)[1] for line in lines if re.match(r"\d+ R\d+ verify ", line)}
    told = {re.search(r" verify (P\d+):0\+", line)[1] for line in lines if re.match(r"> L0 D\d+#\d+ verify P\d+:0\+", line)}
    assert len(asked) == len(platters) and asked <= told, (asked, told)


def test_a_platter_out_of_reach_is_verified_after_the_repair(own):
    settle(own, 100)
    with own:
        put(client(own), own, sets=2)
    assert own.run("catalogue", "rebuild").returncode == 0
    # Slow enough for a shuttle to fail with the platter that is to be verified.
    settle(own, 1)
    carrying = lambda: [number for number, shuttle in enumerate(library(own)["shuttles"]) if shuttle["carries"] is not None]
    with own:
        wait_until("a shuttle carries a platter", carrying)
        shuttle = str(carrying()[0])
        assert own.run("library", "fault", "shuttle", shuttle).returncode == 0
        assert int(shuttle) in carrying() and library(own)["scrub"]["read"] == 0
    settle(own, 100)
    with own:
        # The shuttle may stand in front of another platter's slot too.
        out_of_reach = lambda: library(own)["scrub"]["out_of_reach"]
        wait_until("it is out of reach", lambda: out_of_reach() >= 1)
        wait_until("that is logged", lambda: "the library can't reach a platter" in own.log.read_text())
        wait_until("the others are verified", lambda: figure(own, "fulgurite_platters_never_verified") == out_of_reach())
        assert library(own)["scrub"]["read"] >= 1
        assert figure(own, "fulgurite_scrub_unsound_total") == 0
        wait_until("it is repaired", lambda: own.run("library", "repair", "shuttle", shuttle).returncode == 0)
        wait_until("they are verified too", lambda: figure(own, "fulgurite_platters_never_verified") == 0)
        assert figure(own, "fulgurite_scrub_unsound_total") == 0
    for journal in journals(own):
        assert replay(own, journal)["complete"]


def test_restores_wait_for_stores_that_are_absent(own):
    settle(own, 100)
    with own:
        bodies = put(client(own), own, sets=1)
    away = [(own.archive / name, own.archive / f"{name}-away") for name in ("d1", "d2")]
    for store, elsewhere in away:
        store.rename(elsewhere)
    with own:
        request_all(client(own), bodies)
        wait_until("all wait for stores", lambda: all("stores that are absent" in one["waits_for"] for one in restores(own)["restores"]))
        assert restores(own)["open"] == len(bodies)
        for store, elsewhere in away:
            elsewhere.rename(store)
    with own:
        s3 = client(own)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE library SET slots = substr(slots, 1, 12)",
        "UPDATE library SET stock = 'written 9' || char(10) || 'found P1 slot7 x'",
        "UPDATE library SET stock = 'written 4000000000'",
        "DELETE FROM library_set WHERE number = 0",
        "UPDATE library SET building = 'elsewhere'",
    ],
)
def test_a_damaged_state_of_the_library_is_set_up_anew(own, damage):
    settle(own, 100)
    with own:
        bodies = put(client(own), own, sets=2)
    with closing(sqlite3.connect(own.archive / "service.db")) as database, database:
        assert database.execute(damage).rowcount > 0
    with own:
        s3 = client(own)
        request_all(s3, bodies)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
        assert library(own)["restores"]["failed"] == 0
    assert "the library is set up anew" in own.log.read_text() or "sets of the library are missing" in own.log.read_text()


def test_a_hostile_name_stays_on_its_line(own):
    settle(own, 1)
    with own:
        s3 = client(own)
        s3.create_bucket(Bucket="photos")
        s3.put_object(Bucket="photos", Key="a\n9 open restores\u202e", Body=b"hostile", StorageClass="GLACIER")
        assert own.run("flush").returncode == 0
        request_all(s3, ["a\n9 open restores\u202e"])
        told = own.run("restores").stdout.splitlines()
        assert len(told) == 2 and "\\n9 open" in told[0] and "\u202e" not in told[0]


def test_without_a_library_restores_have_no_estimate_and_faults_are_refused(own):
    with own:
        told = own.run("library", "status")
        assert told.returncode == 1 and "the server has no library" in told.stderr
        assert own.run("library", "fault", "shuttle", "0").returncode == 1
        assert ask(own, "restores") | {"now": 0} == {"now": 0, "open": 0, "restores": [], "library": None}
    told = own.run("restores")
    assert told.returncode == 1 and "no server of this archive is running" in told.stderr


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        ("nowhere.toml", "nowhere.toml"),
        ("wrong.toml", "shuttels"),
        ("tiny.toml", "has no slots for sets of 2+1"),
    ],
)
def test_a_library_that_cannot_be_is_refused_at_the_start(own, layout, why):
    (own.archive / "wrong.toml").write_text("[shuttels]\ncount = 2\n")
    (own.archive / "tiny.toml").write_text(TINY)
    settle(own, 1, layout)
    refused = own.run("serve", "--listen", "127.0.0.1:0")
    assert refused.returncode == 1 and why in refused.stderr, refused.stderr


def test_a_library_that_is_rebuilt_has_every_platter_in_its_slot(own):
    settle(own, 100)
    with own:
        bodies = put(client(own), own, sets=2)
    # A refused start sets up nothing, and doesn't say so.
    (own.archive / "tiny.toml").write_text(TINY)
    settle(own, 100, "tiny.toml")
    refused = own.run("serve", "--listen", "127.0.0.1:0")
    assert refused.returncode == 1 and "set up" not in refused.stderr, refused.stderr
    (own.archive / "small.toml").write_text(SMALL)
    settle(own, 100, "small.toml")
    with own:
        s3 = client(own)
        assert library(own)["sets"] >= 2 and len(library(own)["shuttles"]) == 8
        request_all(s3, bodies)
        wait_until("all are restored", lambda: restores(own)["open"] == 0)
        check_all(s3, bodies)
        assert library(own)["restores"]["read"] == len(bodies)
    assert "the library is set up anew" in own.log.read_text()


def test_removing_objects_does_not_get_round_the_quota_of_open_restores(own):
    """Shuttles still fetch the platters of a removed object, and others wait for that."""
    settle(own, 1, "narrow.toml")
    (own.archive / "narrow.toml").write_text(NARROW)
    with own:
        s3 = client(own)
        bodies = put_unread(s3, own, 12)
        assert own.run("accounts", "quota", "main", "--open", "3").returncode == 0
        accepted = 0
        for key in bodies:
            try:
                s3.restore_object(Bucket="photos", Key=key, RestoreRequest=REQUEST)
            except ClientError as error:
                assert error.response["Error"]["Code"] == "SlowDown"
                continue
            accepted += 1
            wait_until("the library has it", lambda: library(own)["requests_open"] >= accepted)
            s3.delete_object(Bucket="photos", Key=key)
        assert (accepted, restores(own)["open"]) == (3, 0)


def put_unread(s3, own: Own, count: int) -> dict[str, bytes]:
    """Objects of GLACIER in one set. The library may still be verifying their platters."""
    s3.create_bucket(Bucket="photos")
    bodies = {f"{number:03}": random.Random(number).randbytes(15_000) for number in range(count)}
    for key, body in bodies.items():
        s3.put_object(Bucket="photos", Key=key, Body=body, StorageClass="GLACIER")
    flushed = own.run("flush")
    assert flushed.returncode == 0, flushed.stderr
    return bodies


@pytest.mark.parametrize("layout", ["early", None], ids=["a library", "no library"])
def test_a_restore_of_a_staged_object_that_is_damaged_ends(own, layout):
    if layout:
        settle(own, 100, layout)
    with own:
        s3 = client(own)
        s3.create_bucket(Bucket="photos")
        s3.put_object(Bucket="photos", Key="damaged", Body=random.Random(1).randbytes(300_000), StorageClass="GLACIER")
        own.stop()
        [segment] = (path for path in (own.archive / "staging").glob("*.segment") if path.stat().st_size > 300_000)
        content = bytearray(segment.read_bytes())
        content[100_000:101_000] = bytes(byte ^ 0xFF for byte in content[100_000:101_000])
        segment.write_bytes(content)
        own.start()
        s3 = client(own)
        s3.restore_object(Bucket="photos", Key="damaged", RestoreRequest=REQUEST)
        # As if it had not been requested.
        wait_until("the restore ends", lambda: "Restore" not in s3.head_object(Bucket="photos", Key="damaged"))
