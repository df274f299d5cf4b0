"""What an operator sees of a running server: staging that runs out of room, readiness, stores that go away."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from serving import REPOSITORY, START_S, Own, connect, wait_until

MIB = 1 << 20


def make(own: Own, settings: str = "", platter_mib: int = 8) -> None:
    """An archive of three stores with small sets, and settings of the service."""
    stores = [f"--store={own.archive.parent}/d{number}" for number in (1, 2, 3)]
    made = own.run("init", str(own.archive), *stores, "--platter-mib", str(platter_mib))
    assert made.returncode == 0, made
    (own.archive / "service.toml").write_text(settings)


def figure(own: Own, name: str) -> int:
    status, text = own.get("/-/metrics")
    assert status == 200
    found = re.search(rf"^{re.escape(name)} (\d+)$", text, re.MULTILINE)
    assert found, f"{name} is not in\n{text}"
    return int(found[1])


def test_a_full_staging_area_is_written_below_a_full_set(own):
    """A set takes 16 MiB here, and staging 2 MiB. Nothing would be written for a day."""
    make(own, "[staging]\nlimit_mib = 2\n")
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="busy")
        bodies = {f"{number:02}": os.urandom(400_000) for number in range(20)}
        refused = 0
        for key, body in bodies.items():
            until = time.monotonic() + START_S
            while True:
                try:
                    client.put_object(Bucket="busy", Key=key, Body=body)
                    break
                except ClientError as error:
                    assert error.response["Error"]["Code"] == "SlowDown", error
                    assert time.monotonic() < until, "puts are refused and nothing is written"
                    refused += 1
                    time.sleep(0.05)
        assert refused > 0, "the limit was never reached"
        assert figure(own, "fulgurite_staged_bytes") <= 2 * MIB
        for key, body in bodies.items():
            assert client.get_object(Bucket="busy", Key=key)["Body"].read() == body
    assert own.run("verify", "--objects").returncode == 0


def test_an_object_larger_than_the_limit_is_taken_when_staging_is_empty(own):
    make(own, "[staging]\nlimit_mib = 1\n")
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="large")
        client.put_object(Bucket="large", Key="3 MiB", Body=b"a" * (3 * MIB))
        wait_until("the object is on platters", lambda: figure(own, "fulgurite_staged_bytes") == 0)
        assert client.head_object(Bucket="large", Key="3 MiB")["ContentLength"] == 3 * MIB


@pytest.mark.parametrize("gone", [("d2",), ("d2", "d3")])
def test_a_server_without_enough_stores_for_a_set_is_not_ready(own, gone):
    make(own)
    folders = [own.archive.parent / name for name in gone]
    with own:
        assert own.get("/-/ready") == (200, "ok\n")
        for folder in folders:
            folder.rename(f"{folder}-away")
        # A check may fall between two folders, and then names the first only.
        wait_until("it names the stores", lambda: all(name in own.get("/-/ready")[1] for name in gone))
        status, told = own.get("/-/ready")
        assert status == 503 and "usable" in told, told
        assert str(own.archive.parent) not in told, "a path is told to anyone who asks"
        assert own.get("/-/health")[0] == 200
        assert figure(own, 'fulgurite_stores{state="usable"}') == 3 - len(gone)
        assert figure(own, 'fulgurite_stores{state="absent"}') == len(gone)
        assert figure(own, "fulgurite_ready") == 0
        # What can be done is done: it is staged, and can be read.
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="staged")
        client.put_object(Bucket="staged", Key="key", Body=b"body")
        assert client.get_object(Bucket="staged", Key="key")["Body"].read() == b"body"
        for folder in folders:
            folder.with_name(f"{folder.name}-away").rename(folder)
        wait_until("it is ready again", lambda: own.get("/-/ready")[0] == 200)


def test_a_server_whose_staging_is_full_and_can_not_be_written_is_not_ready(own):
    make(own, "[staging]\nlimit_mib = 1\n")
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="full")
        for name in ("d2", "d3"):
            (own.archive.parent / name).rename(own.archive.parent / f"{name}-away")
        client.put_object(Bucket="full", Key="first", Body=b"a" * MIB)
        with pytest.raises(ClientError, match="SlowDown"):
            client.put_object(Bucket="full", Key="second", Body=b"b" * MIB)
        wait_until("it says that staging is full", lambda: "staging is full" in own.get("/-/ready")[1])
        assert client.get_object(Bucket="full", Key="first")["Body"].read() == b"a" * MIB


def test_free_bytes_of_staging_are_what_clients_can_still_stage(own):
    """Both limits hold, the smaller of the two counts, and neither has to leave 256 MiB free, as the disk does."""
    settings = own.archive / "fulgurite.toml"
    make(own, "[staging]\nlimit_mib = 24\n")
    settings.write_text(settings.read_text().replace("# limit_mib = 100000", "limit_mib = 20"))
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="limited")
        client.put_object(Bucket="limited", Key="3 MiB", Body=b"a" * (3 * MIB))
        assert 16 * MIB < figure(own, "fulgurite_staging_free_bytes") <= 17 * MIB
        with pytest.raises(ClientError, match="EntityTooLarge"):
            client.put_object(Bucket="limited", Key="21 MiB", Body=b"b" * (21 * MIB))
    (own.archive / "service.toml").write_text("[staging]\nlimit_mib = 5\n")
    with own:
        assert MIB < figure(own, "fulgurite_staging_free_bytes") <= 2 * MIB


def test_a_set_that_a_command_could_not_write_makes_the_server_not_ready_until_one_is_written(own):
    make(own)
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="waiting")
        client.put_object(Bucket="waiting", Key="key", Body=b"body")
        # The stores are usable when they are looked at, and can't be written.
        folders = [own.archive.parent / name / "platters" for name in ("d1", "d2", "d3")]
        for folder in folders:
            folder.rmdir()
            folder.write_text("a file in the place of a folder")
        assert own.run("flush").returncode == 1
        status, told = own.get("/-/ready")
        assert status == 503 and "the last set couldn't be written" in told, told
        assert str(own.archive.parent) not in told and "waiting" not in told, "paths and names are told to anyone who asks"
        assert figure(own, "fulgurite_ready") == 0
        for folder in folders:
            folder.unlink()
            folder.mkdir()
        assert own.run("flush").returncode == 0
        wait_until("it is ready", lambda: own.get("/-/ready") == (200, "ok\n"))


def test_a_stored_policy_that_can_not_be_read_denies_everything_until_its_owner_replaces_it(own):
    make(own)
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="guarded")
        client.put_object(Bucket="guarded", Key="key", Body=b"body")
        deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::guarded/*"}
        client.put_bucket_policy(Bucket="guarded", Policy=json.dumps({"Statement": deny}))
    with sqlite3.connect(own.archive / "service.db") as state:
        state.execute("UPDATE bucket SET policy = replace(policy, 'Statement', 'Statements')")
    state.close()
    with own:
        client = connect(own.server, own.account)
        for operation in (client.get_object, client.delete_object):
            with pytest.raises(ClientError, match="AccessDenied"):
                operation(Bucket="guarded", Key="key")
        assert figure(own, "fulgurite_unreadable_settings") == 1
        assert own.log.read_text().count("can't read a stored setting") == 1
        assert "Statements" in client.get_bucket_policy(Bucket="guarded")["Policy"]
        client.delete_bucket_policy(Bucket="guarded")
        assert client.get_object(Bucket="guarded", Key="key")["Body"].read() == b"body"
        assert figure(own, "fulgurite_unreadable_settings") == 0


def test_what_the_server_makes_in_the_archive_is_its_owners_alone(own):
    make(own)
    (own.archive / "service.toml").unlink()
    before = os.umask(0)
    try:
        with own:
            client = connect(own.server, own.account)
            client.create_bucket(Bucket="private")
            client.put_object(Bucket="private", Key="key", Body=b"body")
            upload = client.create_multipart_upload(Bucket="private", Key="parts")["UploadId"]
            client.upload_part(Bucket="private", Key="parts", UploadId=upload, PartNumber=1, Body=b"part")
            assert (own.archive / "control.sock").is_socket()
            there = [own.archive / "fulgurite.toml", *own.archive.rglob("*")]
            open_to_others = {path.relative_to(own.archive): oct(path.stat().st_mode) for path in there if path.stat().st_mode & 0o077 and not path.is_dir()}
        assert not open_to_others
        names = {path.name for path in there}
        assert {"service.toml", "service.db", "keys.db", "catalogue.db", "master.key", "lock", "control.sock"} <= names, names
    finally:
        os.umask(before)


def archived(own: Own, number: int = 8) -> dict[str, bytes]:
    """Objects on platters that were never read since the catalogue was rebuilt, and so are due for scrubbing."""
    make(own)
    folder = own.archive.parent / "files"
    folder.mkdir()
    bodies = {str(index): os.urandom(200_000) for index in range(number)}
    for name, body in bodies.items():
        (folder / name).write_bytes(body)
    for command in (["put", str(folder), "--flush"], ["catalogue", "rebuild"]):
        ran = own.run(*command)
        assert ran.returncode == 0, ran
    return bodies


def platters(own: Own) -> list[dict]:
    return [json.loads(line) for line in own.run("--json", "platters").stdout.splitlines()]


def file_of(own: Own, platter: dict) -> Path:
    return own.archive.parent / platter["store"] / "platters" / f"{platter['platter']}.platter"


def damage(file: Path, share: float = 0.4) -> bytes:
    """Overwrites a stretch of a platter, and returns what it was."""
    whole = file.read_bytes()
    stretch = range(10_000, int(len(whole) * share))
    file.write_bytes(whole[: stretch.start] + bytes(len(stretch)) + whole[stretch.stop :])
    return whole


def test_the_server_verifies_platters_by_itself_and_mends_what_is_damaged_or_missing(own):
    archived(own)
    assert "3 platters were never verified" in own.run("status").stdout
    damaged, missing, _ = (file_of(own, platter) for platter in platters(own))
    expected = {damaged: damage(damaged)}
    with own:
        # The one is written anew before the other goes: a set of these can do without one platter.
        wait_until("the damaged one is whole", lambda: damaged.read_bytes() == expected[damaged])
        wait_until("all are verified", lambda: figure(own, "fulgurite_scrub_platters_total") == 3)
        assert figure(own, "fulgurite_platters_never_verified") == 0
        assert figure(own, "fulgurite_platters_oldest_verification_seconds") < START_S
        assert figure(own, "fulgurite_scrub_repaired_total") == 1
        assert figure(own, 'fulgurite_sets{state="beyond_redundancy"}') == 0
        status = own.run("status").stdout
        assert "never verified" not in status and "the longest unverified platter was read" in status, status
    assert "the scrub found a damaged or missing platter" in own.log.read_text()
    expected[missing] = missing.read_bytes()
    missing.unlink()
    assert own.run("catalogue", "rebuild").returncode == 0
    with own:
        wait_until("the missing one is there", lambda: missing.is_file() and missing.read_bytes() == expected[missing])
    assert own.run("verify", "--objects").returncode == 0


def test_the_server_leaves_alone_what_is_absent(own):
    archived(own)
    store = own.archive.parent / platters(own)[0]["store"]
    store.rename(f"{store}-away")
    with own:
        wait_until("the others are verified", lambda: figure(own, "fulgurite_scrub_platters_total") == 2)
        assert figure(own, "fulgurite_scrub_unsound_total") == 0
        assert figure(own, "fulgurite_platters_never_verified") == 1
    for other in ("d1", "d2", "d3"):
        there = list((own.archive.parent / other).glob("platters/*.platter"))
        assert len(there) == (0 if other == store.name else 1), there
    store.with_name(f"{store.name}-away").rename(store)
    assert own.run("verify", "--objects").returncode == 0


def test_damage_is_only_reported_where_the_settings_say_so(own):
    archived(own)
    file = file_of(own, platters(own)[0])
    damage(file)
    before = file.read_bytes()
    (own.archive / "service.toml").write_text("[scrub]\nrepair = false\n")
    with own:
        wait_until("all are verified", lambda: figure(own, "fulgurite_scrub_platters_total") == 3)
        assert figure(own, "fulgurite_scrub_unsound_total") == 1
        assert figure(own, "fulgurite_scrub_repaired_total") == 0
        assert figure(own, "fulgurite_platters_unsound") == 1
    assert file.read_bytes() == before
    assert own.run("verify").returncode == 1


def test_what_is_lost_is_an_error_in_the_log(own):
    archived(own)
    for platter in platters(own):
        damage(file_of(own, platter), 0.9)
    with own:
        wait_until("it is logged", lambda: "the scrub found a version that is lost" in own.log.read_text())
        # Once, although the set has three damaged platters, and again after a restart.
        assert figure(own, 'fulgurite_sets{state="beyond_redundancy"}') == 1
    assert '"log.level":"error"' in own.log.read_text()
    with own:
        assert figure(own, 'fulgurite_sets{state="beyond_redundancy"}') == 1


def test_the_line_of_the_readme_for_cron_works_beside_the_server(own):
    archived(own)
    readme = (REPOSITORY / "README.md").read_text()
    line = re.search(r"^17 3 \* \* 0  (/usr/local/bin/fulgurite .*)$", readme, re.MULTILINE)[1]
    line = line.replace("/srv/archive", str(own.archive)).replace("/usr/local/bin/fulgurite", str(Path(own.program).resolve()), 1)

    def run() -> subprocess.CompletedProcess:
        # As cron runs it: from another folder, with a short search path.
        cron = {"PATH": "/usr/bin:/bin", "HOME": "/", "SHELL": "/bin/sh"}
        return subprocess.run(line, shell=True, capture_output=True, text=True, timeout=START_S, env=cron, cwd="/")

    with own:
        ran = run()
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", ""), ran
        wait_until("the server scrubs no more", lambda: figure(own, "fulgurite_platters_never_verified") == 0)
        file_of(own, platters(own)[0]).unlink()
        ran = run()
        assert ran.returncode == 1 and "missing" in ran.stderr, ran


def test_the_decoding_of_glass_is_measured(own):
    stores = [f"--store={own.archive.parent}/d{number}" for number in (1, 2)]
    made = own.run("init", str(own.archive), "--medium", "glass", "--set", "1+1", *stores)
    assert made.returncode == 0, made
    with own:
        client = connect(own.server, own.account)
        client.create_bucket(Bucket="glass")
        assert "fulgurite_decode" not in own.get("/-/metrics")[1]
        body = os.urandom(3_000)
        client.put_object(Bucket="glass", Key="one", Body=body)
        assert own.run("flush").returncode == 0
        written = figure(own, 'fulgurite_decode_sectors_total{where="here"}')
        assert written > 0, "it was verified"
        assert client.get_object(Bucket="glass", Key="one")["Body"].read() == body
        assert figure(own, 'fulgurite_decode_sectors_total{where="here"}') > written
        assert figure(own, 'fulgurite_decode_sectors_total{where="workers"}') == figure(own, "fulgurite_decode_tasks_waiting") == 0
        figure(own, "fulgurite_decode_sectors_lost_total")
