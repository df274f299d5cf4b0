"""`fulgurite retrieve`: long lists from a server, in parts that a killed run leaves complete or not there."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet
import pytest

from serving import START_S, Own, connect, wait_until

pytestmark = pytest.mark.skipif("S3_ENDPOINT" in os.environ, reason="no other server has it")


class Case:
    """A server with objects, and a folder for what is retrieved."""

    def __init__(self, own: Own, folder: Path):
        self.own, self.folder = own, folder
        self.s3 = connect(own.server, own.account)
        self.s3.create_bucket(Bucket="survey")
        self.objects: dict[str, bytes] = {}

    def put(self, objects: dict[str, bytes]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda item: self.s3.put_object(Bucket="survey", Key=item[0], Body=item[1]), objects.items()))
        self.objects |= objects

    def command(self, lines: list[str], *options: str, name: str = "list.txt") -> list[str]:
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))
        return [*self.own.command("retrieve", str(self.folder / name), "--to", str(self.folder / "parts"), "--bucket", "survey"), *options]

    @property
    def environment(self) -> dict[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": self.own.account.access_key, "AWS_SECRET_ACCESS_KEY": self.own.account.secret_key}
        return {**os.environ, **keys, "AWS_ENDPOINT_URL": self.own.endpoint, "AWS_DEFAULT_REGION": self.own.region}

    def run(self, lines: list[str], *options: str, name: str = "list.txt") -> tuple[int, dict]:
        ran = subprocess.run(self.command(lines, *options, name=name), env=self.environment, capture_output=True, text=True, timeout=START_S)
        return ran.returncode, json.loads((ran.stdout or ran.stderr).splitlines()[-1])

    def parts(self, extension: str) -> list[Path]:
        return sorted((self.folder / "parts").glob(f"*.{extension}"))

    def tarred(self) -> list[tuple[str, bytes]]:
        """The entries of all parts, but for their results."""
        found = []
        for part in self.parts("tar"):
            with tarfile.open(part) as tar:
                names = tar.getnames()
                assert names[-1] == "result.json"
                found += [(name, tar.extractfile(name).read()) for name in names[:-1]]
        return found


@pytest.fixture
def case(own: Own, tmp_path: Path):
    with own:
        yield Case(own, tmp_path)


def content(count: int, size: int = 500) -> dict[str, bytes]:
    return {f"night/{index:05}": random.Random(index).randbytes(size) for index in range(count)}


def test_a_list_comes_in_parts_in_the_order_of_the_archive(case: Case):
    case.put(content(300))
    case.own.run("flush")
    case.put({f"later/{index}": b"later" for index in range(20)})
    keys = list(case.objects)
    random.Random(3).shuffle(keys)
    status, said = case.run(keys, "--part-objects", "50")
    assert (status, said["objects"], said["failed"], said["parts"], said["retrieved"]) == (0, 320, 0, 7, 320)
    assert said["bytes"] == sum(map(len, case.objects.values()))
    found = case.tarred()
    assert dict(found) == {f"objects/{key}": body for key, body in case.objects.items()} and len(found) == 320
    # Staged objects come first, and archived ones platter by platter, in the order in which they were packed.
    names = [name.removeprefix("objects/") for name, _ in found]
    archived = names[20:]
    assert all(name.startswith("later/") for name in names[:20])
    assert sum(one > next for one, next in zip(archived, archived[1:], strict=False)) <= 2, "a new platter begins at most twice"
    assert status == 0 and not list((case.folder / "parts").glob("_*.failed.jsonl"))


def test_another_run_fetches_only_what_is_missing(case: Case):
    case.put(content(100))
    keys = list(case.objects)
    assert case.run(keys, "--part-objects", "30")[1]["parts"] == 4
    before = {path: path.stat().st_mtime_ns for path in case.parts("tar")}
    case.parts("tar")[2].unlink()
    status, said = case.run(keys, "--part-objects", "30")
    assert (status, said["earlier_parts"], said["retrieved"], said["objects"]) == (0, 3, 30, 100)
    after = {path: path.stat().st_mtime_ns for path in case.parts("tar")}
    assert [path.name for path in after if after[path] != before[path]] == ["part-000003.tar"]
    assert dict(case.tarred()) == {f"objects/{key}": body for key, body in case.objects.items()}
    status, said = case.run(keys, "--part-objects", "30")
    assert (status, said["earlier_parts"], said["retrieved"]) == (0, 4, 0)


def test_a_folder_takes_one_retrieval_only(case: Case):
    case.put(content(3))
    assert case.run(list(case.objects))[0] == 0
    for other in ([*case.objects, "more"], list(case.objects)[:2]):
        status, said = case.run(other)
        assert status == 1 and "the list differs" in said["error"], said
    status, said = case.run(list(case.objects), "--format", "parquet")
    assert status == 1 and "the format differs" in said["error"], said


def test_what_can_not_be_sent_is_named(case: Case):
    case.put({"a": b"a", "b": b"bb"})
    case.s3.put_object(Bucket="survey", Key="cold", Body=b"cold", StorageClass="GLACIER")
    status, said = case.run(["a", "missing", "cold", "b"])
    assert (status, said["failed"], said["retrieved"], said["objects"]) == (1, 2, 2, 4)
    (failed,) = (case.folder / "parts").glob("_*.failed.jsonl")
    lines = [json.loads(line) for line in failed.read_text().splitlines()]
    assert sorted((line["key"], line["code"]) for line in lines) == [("cold", "InvalidObjectState"), ("missing", "NoSuchKey")]
    # What failed is a list again.
    case.s3.put_object(Bucket="survey", Key="missing", Body=b"found")
    again = failed.read_text().splitlines()
    shutil.move(case.folder / "parts", case.folder / "first")
    status, said = case.run(again, name="again.jsonl")
    assert (status, said["failed"], said["retrieved"]) == (1, 1, 1) and case.tarred() == [("objects/missing", b"found")]
    shutil.rmtree(case.folder / "parts")
    shutil.move(case.folder / "first", case.folder / "parts")
    # A run that finds all parts there still says so.
    status, said = case.run(["a", "missing", "cold", "b"])
    assert (status, said["failed"], said["retrieved"]) == (1, 2, 0)


def test_versions_and_ranges_can_be_listed(case: Case):
    case.s3.put_bucket_versioning(Bucket="survey", VersioningConfiguration={"Status": "Enabled"})
    old = case.s3.put_object(Bucket="survey", Key="a\nb", Body=b"0123456789")["VersionId"]
    case.s3.put_object(Bucket="survey", Key="a\nb", Body=b"new")
    lines = [json.dumps(line) for line in ("a\nb", {"key": "a\nb", "version_id": old}, {"key": "a\nb", "version_id": old, "range": "bytes=2-4"})]
    assert case.run(lines, name="list.jsonl")[0] == 0
    assert sorted(body for _, body in case.tarred()) == [b"0123456789", b"234", b"new"]
    shutil.rmtree(case.folder / "parts")
    assert case.run(lines, "--format", "parquet", name="list.jsonl")[0] == 0
    rows = pyarrow.parquet.read_table(case.parts("parquet")[0]).to_pylist()
    assert {row["key"] for row in rows} == {"a\nb"}
    assert sorted((row["content"], row["range"], row["version_id"] == old) for row in rows) == [
        (b"0123456789", None, True),
        (b"234", "bytes 2-4/10", True),
        (b"new", None, False),
    ]


def test_rows_of_parquet_have_content_and_properties(case: Case):
    case.put(content(120, 2_000) | {"odd/../é": b"odd", "empty": b""})
    status, said = case.run(list(case.objects), "--format", "parquet", "--part-size", "100 kB")
    assert status == 0 and said["parts"] == len(case.parts("parquet")) == 3
    table = pyarrow.parquet.read_table(case.folder / "parts")
    assert table.schema.names == ["key", "version_id", "etag", "range", "modified", "content"]
    rows = {row["key"]: row for row in table.to_pylist()}
    assert {key: row["content"] for key, row in rows.items()} == case.objects
    head = case.s3.head_object(Bucket="survey", Key="night/00007")
    row = rows["night/00007"]
    assert (row["etag"], row["modified"], row["range"], row["version_id"]) == (head["ETag"].strip('"'), head["LastModified"], None, "null")


def test_runs_that_are_killed_lose_and_double_nothing(case: Case):
    case.put(content(2_000, 5_000))
    keys = list(case.objects)
    command = case.command(keys, "--part-objects", "40", "--connections", "3")
    kills = 0
    for attempt in range(60):
        process = subprocess.Popen(command, env=case.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Killed after a while, or as soon as it has completed another few parts of the 50.
        started, parts = time.monotonic(), len(case.parts("tar"))
        while process.poll() is None:
            if time.monotonic() - started > 0.02 * (attempt + 1) or len(case.parts("tar")) > parts + attempt // 2:
                process.send_signal(signal.SIGKILL)
                kills += process.wait() == -signal.SIGKILL
        if process.returncode == 0:
            break
    assert kills >= 3 and process.returncode == 0, "it was killed, and ended in the end"
    found = case.tarred()
    assert len(found) == 2_000 and dict(found) == {f"objects/{key}": body for key, body in case.objects.items()}
    assert not list((case.folder / "parts").glob("*.partial"))


def test_a_server_that_is_killed_meanwhile_costs_only_time(case: Case):
    case.put(content(3_000, 20_000))
    command = case.command(list(case.objects), "--part-objects", "500", "--endpoint", case.own.endpoint)
    process = subprocess.Popen(command, env=case.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    address = case.own.endpoint.removeprefix("http://")
    wait_until("a part", lambda: case.parts("tar") or process.poll() is not None)
    case.own.kill()
    # At the same address.
    case.own.process = subprocess.Popen(case.own.command("serve", "--listen", address), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    out, err = process.communicate(timeout=START_S)
    assert process.returncode == 0, (out, err)
    assert dict(case.tarred()) == {f"objects/{key}": body for key, body in case.objects.items()}


def test_parts_without_their_retrieval_and_damaged_files_are_not_trusted(case: Case):
    case.put(content(60))
    keys = list(case.objects)
    assert case.run(keys, "--part-objects", "20")[0] == 0
    state = case.folder / "parts" / "_retrieval"
    case.parts("tar")[1].unlink()
    for name in ("sorted", "parts.json", "job.json"):
        kept = (state / name).read_bytes()
        (state / name).write_bytes(kept[:30])
        status, said = case.run(keys, "--part-objects", "20")
        assert status == 1 and name in said["error"] and "damaged" in said["error"], said
        (state / name).write_bytes(kept)
    for gone in (state / "parts.json", state):
        gone.unlink() if gone.is_file() else shutil.rmtree(gone)
        status, said = case.run(keys, "--part-objects", "20")
        assert status == 1 and "own files are gone" in said["error"], said
    assert len(case.parts("tar")) == 2


def test_two_processes_do_not_share_a_folder(case: Case):
    case.put(content(1_000, 20_000))
    command = case.command(list(case.objects), "--part-objects", "50", "--connections", "1")
    first = subprocess.Popen(command, env=case.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until("a part", lambda: case.parts("tar") or first.poll() is not None)
    first.send_signal(signal.SIGSTOP)
    status, said = case.run(list(case.objects), "--part-objects", "50")
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=START_S)
    assert status == 1 and "another process" in said["error"], said
    assert first.returncode == 0
    assert dict(case.tarred()) == {f"objects/{key}": body for key, body in case.objects.items()}


def test_keys_can_not_forge_entries(case: Case):
    """Programs that split pax records at newlines would take the rest of such a key for another record."""
    report = {"objects": [{"key": key, "size": 1} for key in ("a", "b", "c")]}
    hostile = {"x\n20 path=result.json\n": json.dumps(report).encode(), "x\n18 path=objects/a\n": b"forged", "a": b"a", "é" * 60: b"long"}
    case.put(hostile)
    lines = [json.dumps(key) for key in hostile]
    status, said = case.run(lines, "--format", "parquet", name="list.jsonl")
    assert (status, said["failed"], said["retrieved"]) == (0, 0, 4)
    rows = pyarrow.parquet.read_table(case.folder / "parts").to_pylist()
    assert {row["key"]: row["content"] for row in rows} == hostile
    shutil.rmtree(case.folder / "parts")
    assert case.run(lines, name="list.jsonl")[0] == 0
    assert sorted(body for _, body in case.tarred()) == sorted(hostile.values())


def test_a_list_in_a_pipe_is_refused(case: Case):
    case.put({"a": b"a"})
    pipe = case.folder / "pipe"
    os.mkfifo(pipe)
    command = [argument if not argument.endswith("list.txt") else str(pipe) for argument in case.command(["a"])]
    process = subprocess.Popen(command, env=case.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with contextlib.suppress(BrokenPipeError):
        pipe.write_text("a\n")
    _, err = process.communicate(timeout=START_S)
    assert process.returncode == 1 and b"not a file" in err


def test_a_part_that_is_retrieved_again_in_full_has_no_failures(case: Case):
    case.put({"a": b"a"})
    assert case.run(["a", "late"])[1]["failed"] == 1
    case.put({"late": b"late"})
    case.parts("tar")[0].unlink()
    status, said = case.run(["a", "late"])
    assert (status, said["failed"], said["retrieved"]) == (0, 0, 2)


def test_a_wrong_bucket_does_not_claim_the_folder(case: Case):
    case.put({"a": b"a"})
    command = case.command(["a"])
    wrong = [argument if argument != "survey" else "elsewhere" for argument in command]
    ran = subprocess.run(wrong, env=case.environment, capture_output=True, text=True, timeout=START_S)
    assert ran.returncode == 1 and "NoSuchBucket" in ran.stderr and "same command" not in ran.stderr
    assert case.run(["a"])[0] == 0


def test_wrong_lists_and_arguments_are_told(case: Case):
    case.put({"a": b"a"})
    status, said = case.run(['"a"', '{"key": "a", "range": "bytes=5-2"}'], name="list.jsonl")
    assert status == 1 and "list.jsonl, line 2" in said["error"] and "bytes=5-2" in said["error"], said
    status, said = case.run(['"a"'], name="list.json")
    assert status == 1 and ".jsonl" in said["error"], said
    status, said = case.run(['{"key": 7}'], name="list.jsonl")
    assert status == 1 and "list.jsonl, line 1" in said["error"], said
    shutil.rmtree(case.folder / "parts")
    ran = subprocess.run(case.own.command("retrieve", "nowhere", "--to", str(case.folder / "x"), "--bucket", "survey"), env=case.environment, capture_output=True, text=True)
    assert ran.returncode == 1 and "nowhere" in ran.stderr
    status, said = case.run([])
    assert (status, said["objects"], said["parts"]) == (0, 0, 0)


def test_a_second_ctrl_c_ends_a_command_at_once(case: Case):
    """A load against a server that accepts connections and never answers waits for its requests."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = ["--endpoint", endpoint, "--prefix", "p/", "--prepared", "--workload", "access", "--clients", "1", "--timeout", "50"]
        process = subprocess.Popen(case.own.command("bench", *options), env=case.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        connection, _ = silent.accept()
        # Signals that come too fast count once.
        wait_until("its end", lambda: process.send_signal(signal.SIGINT) or process.poll() is not None)
        connection.close()
        assert process.returncode == 130


def test_ctrl_c_ends_it_and_another_run_goes_on(case: Case):
    case.put(content(1_500, 20_000))
    command = case.command(list(case.objects), "--part-objects", "100", "--connections", "1")
    process = subprocess.Popen(command, env=case.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until("a part", lambda: case.parts("tar") or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=START_S)
    if process.returncode != 0:
        assert process.returncode == 1
    assert case.run(list(case.objects), "--part-objects", "100", "--connections", "1")[0] == 0
    assert dict(case.tarred()) == {f"objects/{key}": body for key, body in case.objects.items()}


class InBucket:
    """The parts that a retrieval put into a bucket."""

    def __init__(self, case: Case, bucket: str = "results"):
        self.case, self.bucket = case, bucket
        case.s3.create_bucket(Bucket=bucket)

    def keys(self) -> list[str]:
        return [entry["Key"] for entry in self.case.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])]

    def get(self, key: str) -> bytes:
        return self.case.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def tarred(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for key in self.keys():
            if key.endswith(".tar"):
                with tarfile.open(fileobj=io.BytesIO(self.get(key))) as tar:
                    names = tar.getnames()
                    assert names[-1] == "result.json"
                    new = {name.removeprefix("objects/"): tar.extractfile(name).read() for name in names[:-1]}
                    assert not found.keys() & new.keys()
                    found |= new
        return found


def test_parts_go_into_a_bucket(case: Case):
    case.put(content(250))
    results = InBucket(case)
    keys = list(case.objects)
    status, report = case.run([*keys, "absent"], "--part-objects", "100", "--into", "results/night 1/")
    assert (status, report["retrieved"], report["failed"], report["parts"]) == (1, 250, 1, 3)
    assert results.keys() == ["night 1/_part-000003.failed.jsonl", *[f"night 1/part-00000{number}.tar" for number in (1, 2, 3)]]
    assert results.tarred() == case.objects
    assert json.loads(results.get("night 1/_part-000003.failed.jsonl"))["key"] == "absent"
    assert case.parts("tar") == []
    # Another run has nothing to do, and still says that an object failed.
    status, report = case.run([*keys, "absent"], "--part-objects", "100", "--into", "results/night 1/")
    assert (status, report["retrieved"], report["failed"], report["earlier_parts"]) == (1, 0, 1, 3)
    for other in [[], ["--into", "results"]]:
        status, report = case.run([*keys, "absent"], "--part-objects", "100", *other)
        assert status == 1 and "--into differs" in report["error"]


def test_rows_of_parquet_go_into_a_bucket(case: Case):
    case.put(content(120))
    results = InBucket(case)
    assert case.run(list(case.objects), "--part-objects", "50", "--format", "parquet", "--into", "results")[0] == 0
    assert results.keys() == [f"part-00000{number}.parquet" for number in (1, 2, 3)]
    tables = [pyarrow.parquet.read_table(io.BytesIO(results.get(key))) for key in results.keys()]
    rows = [row for table in tables for row in table.to_pylist()]
    assert {row["key"]: row["content"] for row in rows} == case.objects and len(rows) == 120


def test_a_bucket_that_can_not_be_used_is_named_first(case: Case):
    case.put(content(10))
    status, report = case.run(list(case.objects), "--into", "absent")
    assert status == 1 and "there is no bucket `absent`" in report["error"]
    status, report = case.run(list(case.objects), "--into", "no bucket")
    assert status == 2 and "no bucket" in report["error"]
    assert case.parts("tar") == []
    results = InBucket(case)
    assert case.run(list(case.objects), "--into", "results")[0] == 0
    assert results.tarred() == case.objects


def test_a_part_that_a_stopped_run_left_beside_its_copy_in_the_bucket_is_removed(case: Case):
    """A run may end after it has recorded that a part is in the bucket, and before it removes the file."""
    case.put(content(4))
    results = InBucket(case)
    options = ["--part-objects", "2", "--into", "results/"]
    assert case.run(list(case.objects), *options)[0] == 0
    left = case.folder / "parts/part-000001.tar"
    left.write_bytes(b"what the stopped run had put")
    assert case.run(list(case.objects), *options)[0] == 0
    assert not left.exists() and results.tarred() == case.objects


def test_runs_into_a_bucket_that_are_killed_lose_and_double_nothing(case: Case):
    case.put(content(600, 2_000))
    results = InBucket(case)
    options = ["--part-objects", "20", "--into", "results/"]
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(12):
        running = subprocess.Popen(case.command(list(case.objects), *options), env=case.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(chance.uniform(0.01, 0.3))
        running.kill()
        running.wait()
        # What is in the bucket is complete.
        assert results.tarred().items() <= case.objects.items()
    assert case.run(list(case.objects), *options)[0] == 0
    assert results.tarred() == case.objects and len(results.keys()) == 30 and case.parts("tar") == []
