"""`fulgurite bench` against a real server: what it says is true, and so is its exit status."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess

import pytest

from serving import connect


def bench(own, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    keys = {"AWS_ACCESS_KEY_ID": own.account.access_key, "AWS_SECRET_ACCESS_KEY": own.account.secret_key} | environment
    command = [str(own.program), "bench", "--endpoint", f"here={own.endpoint}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | keys, check=False)


def only_run(ran: subprocess.CompletedProcess) -> dict:
    (target,) = json.loads(ran.stdout)["targets"]
    (run,) = target["rounds"]
    return run


def count(client, prefix: str) -> list[int]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix)
    return [found["Size"] for page in pages for found in page.get("Contents", [])]


def test_every_object_that_it_counts_is_there(own):
    with own:
        ran = bench(own, "--operations", "300", "--size", "cutout", "--prefix", "a/", "--json")
        assert ran.returncode == 0, ran.stderr
        ingest = only_run(ran)["operations"]["ingest"]
        assert (ingest["done"], ingest["failed"], ingest["bytes"]) == (300, 0, 4_500_000)
        client = connect(own.server, own.account)
        assert count(client, "a/") == [15_000] * 300
        # A mixed load puts the objects that it needs first.
        ran = bench(own, "--workload", "mixed", "--operations", "200", "--size", "object-only=1", "--size", "20 kB=3", "--objects", "50", "--prefix", "b/", "--json")
        assert ran.returncode == 0, ran.stderr
        operations = only_run(ran)["operations"]
        assert sum(operation["done"] for operation in operations.values()) == 200
        sizes = count(client, "b/")
        assert len(sizes) == 50 + operations["ingest"]["done"] and set(sizes) == {0, 20_000}


def test_bulk_puts_count_objects(own):
    with own:
        ran = bench(own, "--bulk", "70", "--operations", "5", "--size", "cutout=1", "--size", "object-only=1", "--prefix", "e/", "--json")
        assert ran.returncode == 0, ran.stderr
        ingest = only_run(ran)["operations"]["ingest"]
        sizes = count(connect(own.server, own.account), "e/")
        assert (ingest["done"], ingest["failed"], ingest["bytes"]) == (350, 0, sum(sizes)) and len(sizes) == 350
        # Each object is where a put of its own would put it, and has the content that reads expect.
        sized = ("--size", "cutout=1", "--size", "object-only=1", "--prefix", "e/")
        ran = bench(own, "--workload", "access", "--prepared", "--objects", "350", "--operations", "700", *sized, "--json")
        assert ran.returncode == 0 and only_run(ran)["operations"]["access"]["done"] == 700, ran.stderr
        # Objects that a load needs are put in bulk too, and no more than those.
        ran = bench(own, "--bulk", "70", "--prepare-only", "--objects", "100", "--prefix", "f/")
        assert ran.returncode == 0 and len(count(connect(own.server, own.account), "f/")) == 100, ran.stderr
        # Each object that is refused counts.
        ran = bench(own, "--bulk", "70", "--operations", "2", "--storage-class", "WARM", "--prefix", "g/", "--json")
        ingest = only_run(ran)["operations"]["ingest"]
        assert ran.returncode == 1 and (ingest["done"], ingest["errors"]) == (0, {"InvalidStorageClass": 140})
        assert bench(own, "--bulk", "1000", "--size", "20 kB").returncode == 2
        floor = own.archive / "floor"
        # A folder that doesn't exist may be a disk that isn't mounted.
        assert bench(own, "--bulk", "70", "--operations", "1", "--files", str(floor)).returncode == 2 and not floor.exists()
        floor.mkdir()
        assert bench(own, "--bulk", "70", "--operations", "1", "--files", str(floor)).returncode == 0


def test_archived_objects_are_read_and_a_damaged_server_is_noticed(own):
    with own:
        assert bench(own, "--prepare-only", "--prefix", "c/", "--objects", "40").returncode == 0
        assert own.run("flush").returncode == 0
        ran = bench(own, "--workload", "access", "--prepared", "--prefix", "c/", "--objects", "40", "--operations", "100", "--json")
        assert ran.returncode == 0 and only_run(ran)["operations"]["access"]["done"] == 100, ran.stderr
        client = connect(own.server, own.account)
        client.put_object(Bucket="bench", Key="c/000000000007", Body=bytes(20_000))
        client.delete_object(Bucket="bench", Key="c/000000000008")
        ran = bench(own, "--workload", "access", "--prepared", "--prefix", "c/", "--objects", "40", "--operations", "1000", "--json")
        errors = only_run(ran)["operations"]["access"]["errors"]
        assert ran.returncode == 1 and set(errors) == {"wrong bytes", "404 NoSuchKey"}, errors
        told = bench(own, "--workload", "access", "--prepared", "--prefix", "c/", "--objects", "40", "--operations", "1000")
        assert told.returncode == 1 and "failed: wrong bytes" in told.stdout


def test_targets_take_turns_and_results_are_written(own, tmp_path):
    with own:
        (tmp_path / "files").mkdir()
        files = ("--files", str(tmp_path / "files"), "--csv", str(tmp_path / "results.csv"), "--html", str(tmp_path / "results.html"))
        ran = bench(own, "--rounds", "2", "--seconds", "0.5", *files)
        assert ran.returncode == 0, ran.stderr
        rounds = [line.split(":")[0] for line in ran.stdout.splitlines() if line.startswith("round")]
        assert rounds == ["round 1, here", "round 1, files", "round 2, here", "round 2, files"]
        with open(tmp_path / "results.csv", newline="") as results:
            rows = list(csv.DictReader(results))
        assert [(row["target"], row["round"]) for row in rows] == [("here", "1"), ("here", "2"), ("files", "1"), ("files", "2")]
        assert all(float(row["rate"]) > 1 and row["failed"] == "0" for row in rows)
        # The server runs on this machine; files have none.
        assert all((float(row["server_cpu"] or 0) > 0) == (row["target"] == "here") for row in rows)
        page = (tmp_path / "results.html").read_text()
        assert page.count("<svg") == 2 and "<script" not in page
        assert len(list((tmp_path / "files").rglob("*"))) > 10


def test_it_goes_on_until_it_is_stopped(own):
    with own:
        keys = {"AWS_ACCESS_KEY_ID": own.account.access_key, "AWS_SECRET_ACCESS_KEY": own.account.secret_key}
        command = [str(own.program), "bench", "--endpoint", own.endpoint, "--until-stopped", "--window", "0.2", "--prefix", "d/"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | keys)
        # A line that says what is done, and one for each window.
        for _ in range(16):
            assert running.stdout.readline()
        running.send_signal(signal.SIGINT)
        told, _ = running.communicate(timeout=30)
        assert running.returncode == 0 and "from the first third to the last: rate" in told, told
        # A load with an end that is stopped before it is no full result.
        running = subprocess.Popen([*command[:4], "--seconds", "60", "--prefix", "e/"], stdout=subprocess.PIPE, text=True, env=os.environ | keys)
        assert running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        told, _ = running.communicate(timeout=30)
        assert running.returncode == 1 and "stopped before its end" in told, told


def test_what_cannot_be_done_is_said(own):
    with own:
        wrong_key = bench(own, "--operations", "1", AWS_SECRET_ACCESS_KEY="wrong")
        assert wrong_key.returncode == 1 and "403 SignatureDoesNotMatch" in wrong_key.stderr
        ran = bench(own, "--workload", "delete", "--objects", "20", "--operations", "50")
        assert ran.returncode == 1 and "no object was left" in ran.stdout
        for wrong, says in [
            (("--workload", "get"), "expected `ingest`, `access`"),
            (("--size", "12 parsecs"), "--size 12 parsecs"),
            (("--size", "small=x"), "a whole number after `=`"),
            (("--rate", "0"), "--rate"),
            (("--seconds", "0"), "--seconds"),
            (("--prefix", "a b"), "--prefix"),
            (("--until-stopped", "--files", "/tmp"), "expected one target"),
            (("--bucket", "a/b"), "bucket `a/b`"),
            (("--endpoint", "here=http://127.0.0.1:1"), "two targets are called here"),
            (("--endpoint", "127.0.0.1:9000"), "expected http://HOST:PORT"),
            (("--profile", "there=default"), "no endpoint has this name"),
            (("--ca-file", "/nowhere", "--endpoint", "https://localhost"), "/nowhere"),
        ]:
            ran = bench(own, *wrong)
            assert ran.returncode == 2 and says in ran.stderr, (wrong, ran.stderr)
        nowhere = bench(own, "--endpoint", "gone=http://127.0.0.1:1")
        assert nowhere.returncode == 1 and "connection refused" in nowhere.stderr
        unknown = bench(own, "--endpoint", "gone=http://unknown.invalid:9000")
        assert unknown.returncode == 1 and "no connection to unknown.invalid: " in unknown.stderr, unknown.stderr
        # A wrong path is noticed before the load, not after it.
        for option in ("--csv", "--html"):
            ran = bench(own, "--workload", "access", "--objects", "5", "--operations", "5", "--prefix", "never/", option, "/nowhere/results")
            assert ran.returncode == 1 and "/nowhere/results" in ran.stderr, ran.stderr
        assert count(connect(own.server, own.account), "never/") == []


def test_rounds_without_success_have_no_times(own, tmp_path):
    """A round in which nothing succeeded must not look fast."""
    with own:
        ran = bench(own, "--workload", "delete", "--objects", "20", "--rounds", "2", "--csv", str(tmp_path / "rounds.csv"))
        assert ran.returncode == 1, ran.stderr
        with (tmp_path / "rounds.csv").open(newline="") as file:
            first = next(row for row in csv.DictReader(file) if row["done"] == "20")
        page = bench(own, "--workload", "delete", "--objects", "5", "--rounds", "2", "--json")
        windows = [window for each in json.loads(page.stdout)["targets"][0]["rounds"] for window in each["windows"]]
        empty = [window for window in windows if window["done"] == 0]
        assert empty and all(window["p50_ms"] is None and window["p99_ms"] is None for window in empty), page.stdout
        (shown,) = [line.split() for line in ran.stdout.splitlines() if line.split()[:2] == ["here", "delete"]]
        assert float(shown[6]) == pytest.approx(float(first["p50_ms"]), rel=1e-3), ran.stdout


@pytest.mark.parametrize("rate", [50])
def test_requests_come_at_the_rate_that_was_asked_for(own, rate):
    with own:
        run = only_run(bench(own, "--rate", str(rate), "--seconds", "4", "--json"))
        # 200 are expected, give or take 14.
        assert 140 <= run["operations"]["ingest"]["done"] <= 260
