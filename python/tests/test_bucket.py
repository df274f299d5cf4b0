"""Objects of a server."""

import gc
import hashlib
import http.server
import io
import multiprocessing
import pickle
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from conftest import noise
from serving import Own, connect

import fulgurite
from fulgurite import Part

KEYS = ["plain", "a b+c&d=é%2F", "x/../y", "//", "..", "\u2028\n\t", "dir/", "dir/x", "q?r#s", "'\"<>"]


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    with Own(tmp_path_factory.mktemp("server")) as own:
        yield own


@pytest.fixture(scope="module")
def s3(own):
    return connect(own.server, own.account)


@pytest.fixture(scope="module")
def content(s3):
    """What the bucket `objects` has."""
    s3.create_bucket(Bucket="objects")
    content = {key: noise(key, 100 + 1_000 * number) for number, key in enumerate(KEYS)}
    content |= {f"many/{number:05}": noise(number, number % 3_000) for number in range(1_200)}
    content |= {"empty": b"", "large": noise("large", 9_000_000)}
    for key, body in content.items():
        s3.put_object(Bucket="objects", Key=key, Body=body, Metadata={"night": "7"}, ContentType="image/fits")
    return content


def open_bucket(own, name="objects", **options):
    account = own.account
    keys = {"access_key": account.access_key, "secret_key": account.secret_key}
    return fulgurite.connect(own.endpoint, name, region=own.region, **(keys | options))


@pytest.fixture
def bucket(own, content):
    with open_bucket(own) as bucket:
        yield bucket


def test_every_key_is_listed_and_read(content, bucket):
    listed = {entry.name: entry for entry in bucket.list()}
    assert list(listed) == sorted(content, key=str.encode)
    for key in [*KEYS, "empty", "many/01199", "large"]:
        whole = content[key]
        assert bucket.get(key) == bucket.get(key.encode()) == whole
        info = bucket.info(key)
        assert (info.name, info.size, info.etag) == (key, len(whole), hashlib.md5(whole).hexdigest())
        assert (info.metadata, info.content_type) == ({"night": "7"}, "image/fits")
        assert (listed[key].size, listed[key].etag, listed[key].storage_class) == (info.size, info.etag, None)
        assert datetime.now(UTC) - info.modified < timedelta(minutes=10) and abs(info.modified - listed[key].modified) < timedelta(seconds=1)


def test_lists_have_prefixes(content, bucket):
    assert [entry.name for entry in bucket.list("many/0000")] == [f"many/{number:05}" for number in range(10)]
    tops = [entry if isinstance(entry, str) else entry.name for entry in bucket.list_folder()]
    assert tops == sorted({key[: key.index("/") + 1] if "/" in key else key for key in content}, key=str.encode)
    assert [entry if isinstance(entry, str) else entry.name for entry in bucket.list_folder("dir/")] == ["dir/", "dir/x"]
    assert list(bucket.list("absent")) == []


def test_prefixes_are_bytes_too(content, bucket):
    assert list(bucket.list("dir/".encode())) == list(bucket.list("dir/")) != []
    assert list(bucket.list_folder(b"dir/")) == list(bucket.list_folder("dir/")) != []
    assert [entry.name for entry in bucket.list(b"dir/", versions=True)] == ["dir/", "dir/x"]
    for use in [bucket.list, bucket.list_folder, lambda prefix: bucket.list(prefix, versions=True)]:
        for prefix in [b"\xff", "\ud800"]:
            with pytest.raises(fulgurite.NotFound, match="UTF-8"):
                use(prefix)
        with pytest.raises(TypeError, match="str or bytes"):
            use(7)


def test_ranges_are_like_slices(content, bucket):
    whole = content["large"]
    for start, end in [(0, 0), (0, 1), (65_535, 65_537), (8_999_999, 99_999_999), (9_000_000, None), (7, 3), (10_000_000, 11_000_000), (5, 5)]:
        assert bucket.get("large", start, end) == whole[start:end]
    assert bucket.get("empty", 0, 5) == bucket.get("empty", 3) == b""
    with pytest.raises(ValueError, match="not negative"):
        bucket.get("large", -1)
    parts = [Part("large", 5, 10), Part("large", 8_999_990), "large", Part("large", 0, 99_999_999), Part("empty", 3), Part("large", 10_000_000), Part("large", 7, 7), Part("empty", 0, 0)]
    expected = [whole[5:10], whole[-10:], whole, whole, b"", b"", b"", b""]
    assert bucket.get_many(parts)["content"].to_pylist() == expected
    assert [item.content for item in sorted(bucket.iter_many(parts))] == expected


def test_many_objects(content, bucket):
    keys = sorted(content, key=lambda key: noise(key, 8)) + ["plain", "plain"]
    table = bucket.get_many(keys)
    table.validate(full=True)
    assert table["key"].to_pylist() == keys and table["content"].to_pylist() == [content[key] for key in keys]
    assert table["version_id"].null_count == table["error"].null_count == len(keys)
    for batch_bytes in [50_000, 1 << 30]:
        items = list(bucket.iter_many(keys, batch_bytes=batch_bytes))
        assert sorted(item.number for item in items) == list(range(len(keys)))
        assert all(item.key == keys[item.number] and item.content == content[item.key] for item in items)
    assert bucket.get_many([]).num_rows == 0
    assert bucket.get_array([Part(f"many/{number:05}", 0, 8) for number in range(8, 100)], "<i8", ()).shape == (92,)


def test_failures_are_rows_or_raise(content, bucket):
    keys = ["plain", "absent", "gone/é", "large"]
    with pytest.raises(fulgurite.NotFound, match="^objects/absent: NoSuchKey"):
        bucket.get_many(keys)
    table = bucket.get_many(keys, on_error="keep")
    assert table["content"].to_pylist() == [content["plain"], None, None, content["large"]]
    assert [error is None or error.split(":")[0] for error in table["error"].to_pylist()] == [True, "objects/absent", "objects/gone/é", True]
    failed = [item for item in bucket.iter_many(keys, on_error="keep") if item.error]
    assert sorted(item.key for item in failed) == ["absent", "gone/é"] and all(isinstance(item.error, fulgurite.NotFound) for item in failed)
    for use in [bucket.get, bucket.info, bucket.open]:
        with pytest.raises(FileNotFoundError, match="absent"):
            use("absent")
        with pytest.raises(fulgurite.NotFound):
            use("")
        with pytest.raises(fulgurite.NotFound, match="UTF-8"):
            use(b"\xff")


def test_files_read_and_seek(content, bucket):
    whole = content["large"]
    with bucket.open("large") as file:
        assert file.read(10) == whole[:10]
        assert file.seek(-5, io.SEEK_END) == len(whole) - 5 and file.read() == whole[-5:]
        assert file.seek(5_000_000) == 5_000_000 and file.read(100) == whole[5_000_000:5_000_100]
    with bucket.open("empty") as file:
        assert file.read() == b""


def test_a_file_never_has_bytes_of_two_versions(own, s3):
    s3.create_bucket(Bucket="changing")
    s3.put_object(Bucket="changing", Key="k", Body=bytes(5_000_000))
    with open_bucket(own, "changing") as bucket, bucket.open("k") as file:
        assert file.read(10) == bytes(10)
        s3.put_object(Bucket="changing", Key="k", Body=b"1" * 5_000_000)
        file.seek(4_000_000)
        with pytest.raises(fulgurite.Unavailable, match="replaced"):
            file.read(10)


def test_versions(own, s3):
    s3.create_bucket(Bucket="versioned")
    s3.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket="versioned", Key="k", Body=body)["VersionId"] for body in [b"one", b"two"]]
    with open_bucket(own, "versioned") as bucket:
        assert bucket.get("k") == b"two" and bucket.get("k", version_id=ids[0]) == b"one"
        assert bucket.info("k").version_id == ids[1]
        s3.put_object(Bucket="versioned", Key="k2", Body=b"")
        assert [(entry.version_id, entry.size) for entry in bucket.versions("k")] == [(ids[1], 3), (ids[0], 3)]
        assert bucket.versions("absent") == []
        assert bucket.get_many(bucket.versions("k"))["content"].to_pylist() == [b"two", b"one"]
        table = bucket.get_many([Part("k", version_id=ids[0]), "k", Part("k", 1, version_id=ids[0])])
        assert table["content"].to_pylist() == [b"one", b"two", b"ne"] and table["version_id"].to_pylist() == [ids[0], ids[1], ids[0]]
        with bucket.open("k") as file:
            s3.put_object(Bucket="versioned", Key="k", Body=b"three")
            assert file.read() == b"two"
        s3.delete_object(Bucket="versioned", Key="k")
        with pytest.raises(fulgurite.NotFound):
            bucket.get("k")
        assert [entry.kind for entry in bucket.versions("k")] == ["deletion-marker", "file", "file", "file"]
        assert [entry.name for entry in bucket.list(versions=True)] == ["k"] * 4 + ["k2"] and [entry.name for entry in bucket.list()] == ["k2"]


def test_who_may_not_read_is_refused(own, content):
    with open_bucket(own, secret_key="wrong" * 8) as bucket:
        for use in [lambda: bucket.get("plain"), lambda: bucket.get_many(["plain"]), lambda: list(bucket.list())]:
            with pytest.raises(fulgurite.Refused) as error:
                use()
            assert isinstance(error.value, PermissionError) and "wrong" not in str(error.value)
    other = own.add_account("other")
    with open_bucket(own, access_key=other.access_key, secret_key=other.secret_key) as bucket:
        with pytest.raises(fulgurite.Refused):
            bucket.get("plain")
        with pytest.raises(fulgurite.Refused):
            bucket.get_many(["plain"])


def test_what_is_no_server_says_so(own, monkeypatch):
    with pytest.raises(fulgurite.NotFound, match="the bucket absent at .*NoSuchBucket"):
        open_bucket(own, "absent").get_many(["k"])
    with pytest.raises(fulgurite.NotFound, match="absent.*NoSuchBucket"):
        list(open_bucket(own, "absent").list())
    with pytest.raises(fulgurite.Unavailable, match="no connection"):
        fulgurite.connect("http://127.0.0.1:9", "b", access_key="a", secret_key="b").get("k")
    for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"]:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="no endpoint"):
        fulgurite.connect(bucket="objects")
    for arguments, options in [(("127.0.0.1", "b"), {}), (("http://h", ""), {}), (("http://h", "a/b"), {}), (("http://h", "b"), {"access_key": "a"}), (("http://h", "b"), {"connections": 0}), (("http://h", "b"), {"connections": 2**70})]:
        with pytest.raises((ValueError, fulgurite.FulguriteError)):
            fulgurite.connect(*arguments, **({"access_key": "a", "secret_key": "b"} | options if len(options) != 1 or "connections" in options else options))


def test_the_environment_names_the_server(own, content, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", own.endpoint)
    monkeypatch.setenv("AWS_REGION", own.region)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", own.account.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", own.account.secret_key)
    with fulgurite.connect(bucket="objects") as bucket:
        assert bucket.get("plain") == content["plain"]
        assert own.account.secret_key not in repr(bucket)


def test_a_named_profile_goes_before_the_environment(own, content, monkeypatch, tmp_path):
    (tmp_path / "credentials").write_text(f"[mine]\naws_access_key_id = {own.account.access_key}\naws_secret_access_key = {own.account.secret_key}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with fulgurite.connect(own.endpoint, "objects", region=own.region, profile="mine") as bucket:
        assert bucket.get("plain") == content["plain"]
    with pytest.raises(fulgurite.FulguriteError, match="none"):
        fulgurite.connect(own.endpoint, "objects", region=own.region, profile="none")


def test_a_closed_bucket_says_so(own, content):
    bucket = open_bucket(own)
    assert bucket.get("plain") == content["plain"]
    bucket.close()
    assert bucket.closed and "closed" in repr(bucket)
    for use in [lambda: bucket.get("plain"), lambda: bucket.get_many(["plain"]), lambda: list(bucket.list())]:
        with pytest.raises(ValueError, match="closed"):
            use()
    # What a list began to read goes on.
    bucket = open_bucket(own)
    items = bucket.iter_many(KEYS, batch_bytes=1)
    next(items)
    bucket.close()
    assert len(list(items)) == len(KEYS) - 1


def test_positions_are_whole_numbers(content, bucket):
    whole = content["plain"]
    assert bucket.get("plain", True) == whole[1:] and bucket.get("plain", np.int64(3), np.int32(7)) == whole[3:7]
    for start, end in [(1.5, None), (0, 5.0), (np.float32(2), None), ("1", None)]:
        with pytest.raises(TypeError):
            bucket.get("plain", start, end)
    huge = [(0, 2**70), (2**64 - 1, 2**64 - 1), (5, 3)]
    assert [bucket.get("plain", *one) for one in huge] == [whole, b"", b""]
    assert bucket.get_many([Part("plain", *one) for one in huge])["content"].to_pylist() == [whole, b"", b""]


def test_what_can_not_be_a_key_fails_alone(content, bucket):
    keys = ["plain", b"\xff", "\ud800", "empty"]
    items = sorted(bucket.iter_many(keys, on_error="keep"))
    assert [item.content for item in items] == [content["plain"], b"", b"", b""]
    assert [type(item.error) for item in items] == [type(None), fulgurite.NotFound, fulgurite.NotFound, type(None)]


def test_a_signal_handler_may_use_buckets(own, content):
    """While a request runs, which takes long enough for the signal."""
    got = []

    def handle(*_):
        with open_bucket(own) as other:
            got.append(other.get("plain"))

    before = signal.signal(signal.SIGALRM, handle)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        Faulty.trouble = ["wait"]
        with fulgurite.connect(f"http://127.0.0.1:{server.server_port}", "b", access_key="a", secret_key="b") as bucket:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            assert bucket.get("k") == b"content"
    finally:
        signal.signal(signal.SIGALRM, before)
        Faulty.go_on.set()
        server.shutdown()
        server.server_close()
    assert got == [content["plain"]]


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers as the class says: status, headers and body, by method."""

    answers: dict = {}

    def answer(self):
        status, headers, body = self.answers[self.command]
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_POST = answer

    def log_message(self, *_):
        pass


@pytest.fixture
def answering():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with fulgurite.connect(f"http://127.0.0.1:{server.server_port}", "bucket", access_key="a", secret_key="b") as bucket:
        yield bucket
    server.shutdown()
    server.server_close()


def test_servers_without_ranges_are_understood(answering):
    Answers.answers = {"GET": (200, {}, b"0123456789")}
    assert answering.get("k", 5, 7) == b"56" and answering.get("k", 8) == b"89" and answering.get("k") == b"0123456789"


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (206, {"Content-Range": "bytes 0-1/10"}, b"01"),
        (206, {"Content-Range": "bytes 5-9/10"}, b"56789"),
        (206, {"Content-Range": "bytes 5-6/10"}, b"5"),
        (206, {}, b"56"),
        (416, {"Content-Range": "bytes */10"}, b""),
        (204, {}, b""),
    ],
)
def test_another_range_is_an_error(answering, status, headers, body):
    Answers.answers = {"GET": (status, headers, body)}
    with pytest.raises(fulgurite.FulguriteError):
        answering.get("k", 5, 7)


def test_a_file_that_ends_early_is_an_error(answering):
    Answers.answers = {"HEAD": (200, {"Content-Length": "10", "ETag": '"e"'}, b""), "GET": (416, {"Content-Range": "bytes */0"}, b"")}
    with answering.open("k") as file, pytest.raises(fulgurite.Unavailable, match="ended early"):
        file.read()


def test_what_is_not_s3_is_no_absence(answering):
    Answers.answers = {"GET": (404, {}, b"<html>not found</html>"), "POST": (405, {}, b""), "HEAD": (200, {}, b"")}
    for use in [lambda: answering.get("k"), lambda: answering.get_many(["k"]), lambda: answering.info("k"), lambda: list(answering.list())]:
        with pytest.raises(fulgurite.FulguriteError) as error:
            use()
        assert not isinstance(error.value, fulgurite.NotFound)
    Answers.answers = {"GET": (200, {}, b"<html><body>Please log in</body></html>")}
    with pytest.raises(fulgurite.FulguriteError, match="html"):
        list(answering.list())


def listing(rest, key="a+b%41"):
    entry = f"<Contents><Key>{key}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
    return f"<ListBucketResult>{entry}{rest}</ListBucketResult>".encode()


def test_lists_of_other_servers_are_understood(answering):
    Answers.answers = {"GET": (200, {}, listing(""))}
    assert [entry.name for entry in answering.list()] == ["a+b%41"]
    Answers.answers = {"GET": (200, {}, listing("<EncodingType>url</EncodingType>"))}
    assert [entry.name for entry in answering.list()] == ["a bA"]
    for rest in ["<IsTruncated>TRUE</IsTruncated>", "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"]:
        Answers.answers = {"GET": (200, {}, listing(rest))}
        with pytest.raises(fulgurite.FulguriteError, match="cut off"):
            list(answering.list())
    Answers.answers = {"GET": (200, {}, listing("").replace(b"<Size>1", b"<Size>x"))}
    with pytest.raises(fulgurite.FulguriteError, match="malformed"):
        list(answering.list())


class Faulty(http.server.BaseHTTPRequestHandler):
    """Cuts off its first responses, and refuses for a while, as the class says."""

    protocol_version = "HTTP/1.1"
    trouble: list = []
    go_on = threading.Event()

    def do_GET(self):
        trouble = self.trouble.pop() if self.trouble else None
        if trouble == "wait":
            self.go_on.wait(1)
        if trouble == "slow":
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif trouble == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "7")
            self.end_headers()
            self.wfile.write(b"con")
            self.close_connection = True
        else:
            self.send_response(200)
            self.send_header("Content-Length", "7")
            self.end_headers()
            self.wfile.write(b"content")
            # As a server that ends connections which were idle.
            self.close_connection = trouble == "hang up"

    def log_message(self, *_):
        pass


def test_passing_troubles_are_tried_again():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        Faulty.trouble = ["slow", "cut", "cut"]
        with fulgurite.connect(f"http://127.0.0.1:{server.server_port}", "b", access_key="a", secret_key="b") as bucket:
            assert bucket.get("k") == b"content" and Faulty.trouble == []
            Faulty.trouble = ["hang up"] * 3
            assert [bucket.get("k") for _ in range(4)] == [b"content"] * 4 and Faulty.trouble == []
            with pytest.raises(fulgurite.FulguriteError, match="XML"):
                list(bucket.list())
    finally:
        server.shutdown()
        server.server_close()


def _in_child(bucket, keys, queue):
    queue.put([bucket.get(key) for key in keys] + bucket.get_many(keys)["content"].to_pylist())


def test_forked_processes_read_too(content, bucket):
    assert bucket.get("plain") == content["plain"]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_in_child, args=(bucket, KEYS, queue)) for _ in range(2)]
    for child in children:
        child.start()
    assert [queue.get(timeout=60) for _ in children] == [2 * [content[key] for key in KEYS]] * 2
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert bucket.get("plain") == content["plain"]


def _forget(bucket, queue):
    bucket.close()
    del bucket
    gc.collect()
    queue.put("dropped")


def test_a_child_leaves_alone_what_its_parent_opened(own, content):
    bucket = open_bucket(own)
    assert bucket.get("plain") == content["plain"]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_forget, args=(bucket, queue))
    child.start()
    assert queue.get(timeout=60) == "dropped"
    child.join(60)
    assert child.exitcode == 0 and bucket.get("plain") == content["plain"]


def test_a_bucket_can_be_pickled(content, bucket):
    assert pickle.loads(pickle.dumps(bucket)).get("plain") == content["plain"]


def test_lists_fail_at_once_without_a_server(content):
    begun = time.monotonic()
    with fulgurite.connect("http://127.0.0.1:9", "objects", access_key="a", secret_key="b") as bucket, pytest.raises(fulgurite.Unavailable):
        bucket.get_many(["plain"])
    assert time.monotonic() - begun < 30


def test_what_is_listed_can_be_read(content, bucket):
    keys = [entry.name for entry in bucket.list("many/0001")]
    assert bucket.get_many(bucket.list("many/0001"))["key"].to_pylist() == keys


def test_threads_share_a_bucket(content, bucket):
    wrong = []

    def read(first):
        wrong.extend(key for key in list(content)[first::4][:100] if bucket.get(key) != content[key])

    threads = [threading.Thread(target=read, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_empty_keys_are_wrong(own):
    for keys in [{"access_key": "", "secret_key": ""}, {"access_key": "a", "secret_key": ""}, {"access_key": "", "secret_key": "b"}]:
        with pytest.raises(ValueError, match="empty; leave out both"):
            fulgurite.connect(own.endpoint, "objects", **keys)


def test_archived_objects_must_be_restored_first(own, s3):
    s3.create_bucket(Bucket="cold")
    s3.put_object(Bucket="cold", Key="k", Body=b"cold", StorageClass="GLACIER")
    with open_bucket(own, "cold") as bucket:
        assert next(bucket.list()).storage_class == "GLACIER"
        for use in [lambda: bucket.get("k"), lambda: bucket.get_many(["k"]), lambda: list(bucket.iter_many(["k"]))]:
            with pytest.raises(fulgurite.Unavailable, match=r"^cold/k: .*storage class\. It must be restored first\.$"):
                use()
        error = bucket.get_many(["k"], on_error="keep")["error"][0].as_py()
        assert error.startswith("cold/k: InvalidObjectState: ") and error.endswith("storage class. It must be restored first.")


def test_a_version_that_can_not_be_fails_alike(own, s3):
    s3.create_bucket(Bucket="ids")
    s3.put_bucket_versioning(Bucket="ids", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="ids", Key="k", Body=b"k")
    with open_bucket(own, "ids") as bucket:
        for use in [lambda: bucket.get("k", version_id="latest"), lambda: bucket.get_many([Part("k", version_id="latest")])]:
            with pytest.raises(fulgurite.FulguriteError, match="^ids/k: .*InvalidArgument: .*version id"):
                use()


def test_a_connection_that_fails_raises_in_any_case(tmp_path):
    """Also where the failures of objects are kept."""
    with Own(tmp_path) as own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="down")
        s3.put_object(Bucket="down", Key="x", Body=b"content")
        with open_bucket(own, "down") as bucket:
            own.kill()
            for use in [lambda: bucket.get_many(["x"], on_error="keep"), lambda: list(bucket.iter_many(["x"], on_error="keep"))]:
                with pytest.raises(fulgurite.Unavailable, match="no connection"):
                    use()
        own.start()


def test_a_list_that_does_not_fit_into_memory_fails_alone(own, content):
    script = (
        "import fulgurite, resource, sys\n"
        "bucket = fulgurite.connect(*sys.argv[1:3], access_key=sys.argv[3], secret_key=sys.argv[4], region=sys.argv[5])\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)\n"
        "try:\n"
        "    bucket.get_many(['large'] * 200)\n"
        "except MemoryError:\n"
        "    print('no memory', len(bucket.get_many(['large'])))\n"
    )
    account = own.account
    arguments = [own.endpoint, "objects", account.access_key, account.secret_key, own.region]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "no memory 1\n"), done.stderr


def test_objects_that_change_after_the_lookup_are_read_whole(own, s3):
    s3.create_bucket(Bucket="changing")
    for number in range(4):
        s3.put_object(Bucket="changing", Key=str(number), Body=noise(number, 1_000))
    with open_bucket(own, "changing") as bucket:
        selection = bucket._selection(["0", "1", "2", Part("3", 500, 2_000), "absent"])[1]
        s3.put_object(Bucket="changing", Key="1", Body=b"shorter")
        s3.delete_object(Bucket="changing", Key="2")
        s3.put_object(Bucket="changing", Key="3", Body=b"beyond")
        content, packed_ends, errors, _ = selection.read([0, 1, 2, 3, 4])
        ends = memoryview(packed_ends).cast("q").tolist()
        assert content[: ends[1]] == noise(0, 1_000) and content[ends[1] : ends[2]] == b"shorter"
        assert ends[3] == ends[4] == ends[5] == len(content)
        assert sorted(errors) == [2, 4] and all(isinstance(error, fulgurite.NotFound) for error in errors.values())


def test_objects_on_absent_disks_are_unavailable(tmp_path):
    own = Own(tmp_path)
    with own:
        s3 = connect(own.server, own.account)
        s3.create_bucket(Bucket="away")
        s3.put_object(Bucket="away", Key="k", Body=b"content")
    assert own.run("flush").returncode == 0
    # Two platters of three, of which one may be away.
    for disk in sorted(mark.parent for mark in own.archive.rglob("fulgurite-store"))[:2]:
        disk.rename(disk.with_name(f"{disk.name}-away"))
    with own, open_bucket(own, "away") as bucket:
        item = next(bucket.iter_many(["k"], on_error="keep"))
        assert isinstance(item.error, fulgurite.Unavailable) and "ServiceUnavailable" in str(item.error)
