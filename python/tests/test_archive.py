"""One object at a time, from an archive on this machine."""

import gc
import hashlib
import io
import multiprocessing
import os
import pickle
import threading
import warnings
from datetime import UTC, datetime

import pytest
from conftest import Made, noise, run

import fulgurite


def test_every_object_is_listed_and_read(made, archive):
    entries = {entry.name: entry for entry in archive.list()}
    assert sorted(entries) == sorted(os.fsdecode(name) for name in made.content)
    for name, content in made.content.items():
        entry = entries[os.fsdecode(name)]
        assert archive.get(name) == archive.get(os.fsdecode(name)) == content
        assert (entry.size, entry.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert entry.kind == "file" and entry.version == 1 and entry.encrypted
        assert entry.archived is (not os.fsdecode(name).startswith("staged/"))


def test_what_is_listed_is_what_the_program_lists(made, archive):
    listed = {entry.version_id: entry for entry in archive.list()}
    for line in made.listed():
        entry = listed.pop(line["id"])
        assert entry.created == datetime.fromtimestamp(line["created_ms"] / 1000, UTC)
        assert int(entry.modified.timestamp()) == line["modified"]
        assert entry.attributes == {} and entry.mode is not None
    assert not listed


def test_a_prefix_selects_by_bytes(archive):
    assert [entry.name for entry in archive.list("images/00")] == [f"images/{number:03}.bin" for number in range(10)]
    assert [entry.name for entry in archive.list("night/é")] == ["night/é.txt"]
    assert [entry.name for entry in archive.list(b"raw/\xff")] == ["raw/\udcff\udcfe"]
    assert list(archive.list("absent")) == []


def test_ranges_are_like_slices(made, archive):
    content = made.content["large"]
    for start, end in [(0, 0), (0, 1), (65_535, 65_537), (1_000_000, None), (2_999_999, 9_999_999), (3_000_000, None), (7, 3), (4_000_000, 5_000_000)]:
        assert archive.get("large", start, end) == content[start:end]
    with pytest.raises(ValueError, match="not negative"):
        archive.get("large", -1)


def test_what_is_absent_raises(archive):
    for key in ["absent", "images", "", b"\xff"]:
        with pytest.raises(fulgurite.NotFound) as error:
            archive.get(key)
        assert isinstance(error.value, FileNotFoundError) and isinstance(error.value, fulgurite.FulguriteError)
    with pytest.raises(fulgurite.NotFound, match="large: it has no version 0000"):
        archive.get("large", version_id="0" * 32)
    # As in lists.
    for use in [archive.get, archive.info, archive.open]:
        with pytest.raises(fulgurite.NotFound, match='^large: "latest" is not the identifier of a version'):
            use("large", version_id="latest")
    with pytest.raises(fulgurite.NotFound, match='^large: "latest" is not the identifier of a version'):
        archive.get_many([fulgurite.Part("large", version_id="latest")])
    with pytest.raises(TypeError, match="str or bytes"):
        archive.get(7)


def test_files_read_and_seek(made, archive):
    content = made.content["large"]
    with archive.open("large") as file:
        assert file.read(10) == content[:10] and file.tell() == 10
        assert file.seek(-5, io.SEEK_END) == len(content) - 5
        assert file.read() == content[-5:] and file.read() == b""
        assert file.seek(2_000_000) == 2_000_000 and file.read(3) == content[2_000_000:2_000_003]
        assert file.seek(9_999_999) == 9_999_999 and file.read(1) == b""
        with pytest.raises(ValueError):
            file.seek(-1)
        assert file.readable() and file.seekable() and not file.writable()
    with pytest.raises(ValueError):
        file.read(1)
    assert io.TextIOWrapper(archive.open("night/é.txt"), "utf-8").read() == "é"


def test_versions(tmp_path):
    made = Made(tmp_path)
    for content in [b"one", b"two", b"three"]:
        made.put({"a": content})
    with fulgurite.open(made.home) as archive:
        versions = archive.versions("a")
        assert [(entry.version, archive.get("a", version_id=entry.version_id)) for entry in versions] == [(3, b"three"), (2, b"two"), (1, b"one")]
        assert archive.get("a") == b"three"
        assert list(archive.list(versions=True)) == versions
        table = archive.get_many([fulgurite.Part("a", version_id=versions[1].version_id), "a", fulgurite.Part("a", 1)])
        assert table["content"].to_pylist() == [b"two", b"three", b"hree"]
        assert table["version_id"].to_pylist() == [versions[1].version_id, versions[0].version_id, versions[0].version_id]
        with archive.open("a", version_id=versions[2].version_id) as file:
            made.command("rm", "a")
            assert archive.versions("a") == []
            with pytest.raises(fulgurite.NotFound):
                archive.get("a")
            # It was open before.
            assert file.read() == b"one"


def test_a_lost_store_is_repaired_and_two_are_named(tmp_path):
    made = Made(tmp_path)
    files = {f"f/{number:02}": noise(number, 50_000) for number in range(60)}
    made.put(files)
    made.flush()
    away = [store.rename(store.with_suffix(".away")) for store in made.stores[:1]]
    with fulgurite.open(made.home) as archive:
        assert archive.get_many(list(files))["content"].to_pylist() == list(files.values())
        away.append(made.stores[1].rename(made.stores[1].with_suffix(".away")))
    with fulgurite.open(made.home) as archive:
        failed = [item for item in archive.iter_many(list(files), on_error="keep") if item.error]
        assert failed and all(isinstance(item.error, fulgurite.Unavailable) and item.content == b"" for item in failed)
        with pytest.raises(fulgurite.Unavailable, match="d2"):
            archive.get_many(list(files))
        table = archive.get_many(list(files), on_error="keep")
        named = {item.number: str(item.error) for item in failed}
        for row, (content, error) in enumerate(zip(table["content"].to_pylist(), table["error"].to_pylist())):
            assert (content, error) == ((None, named[row]) if row in named else (files[f"f/{row:02}"], None))
        # Once they are back, the same object reads them.
        for store in away:
            store.rename(store.with_suffix(""))
        assert archive.get_many(list(files))["content"].to_pylist() == list(files.values())


def test_damage_is_an_error_and_never_wrong_bytes(tmp_path):
    made = Made(tmp_path, stores=1, shape="1+0")
    files = {f"f/{number:02}": noise(number, 300_000) for number in range(20)}
    made.put(files)
    made.flush()
    for path in made.stores[0].glob("**/*.platter"):
        content = bytearray(path.read_bytes())
        # More than the track's code repairs.
        content[200_000:3_000_000] = bytes(2_800_000)
        path.write_bytes(content)
    with fulgurite.open(made.home) as archive:
        items = {item.number: item for item in archive.iter_many(list(files), on_error="keep")}
        assert any(item.error for item in items.values())
        for index, (name, content) in enumerate(files.items()):
            if error := items[index].error:
                assert isinstance(error, fulgurite.FulguriteError) and name in str(error)
                with pytest.raises(fulgurite.FulguriteError):
                    archive.get(name)
            else:
                assert items[index].content == content == archive.get(name)


def test_a_gap_of_the_catalogue_is_told(tmp_path):
    made = Made(tmp_path)
    made.put({"kept": b"kept", "changed": b"old"})
    old = {path: path.read_bytes() for path in made.home.glob("keys.db*")}
    made.put({"later": b"later", "changed": b"new"})
    made.flush()
    # The key store is an old copy, and a lost catalogue is rebuilt with it.
    for path in [*made.home.glob("keys.db*"), *made.home.glob("catalogue.db*")]:
        path.unlink()
    for path, content in old.items():
        path.write_bytes(content)
    made.command("catalogue", "rebuild", status=None)
    with fulgurite.open(made.home) as archive:
        with pytest.warns(fulgurite.IncompleteWarning, match="can't be listed"):
            assert [entry.name for entry in archive.list()] == ["changed", "kept"]
        for key in ["later", "absent"]:
            # What isn't listed isn't said to be absent.
            with pytest.raises(fulgurite.FulguriteError, match="can't be listed|incomplete") as error:
                archive.get(key)
            assert not isinstance(error.value, fulgurite.NotFound)
        for read in [lambda: archive.get("changed"), lambda: archive.get_many(["changed"])["content"][0].as_py(), lambda: archive.open("changed").read()]:
            with pytest.warns(fulgurite.IncompleteWarning, match="newer version.* may exist"):
                assert read() == b"old"
        with pytest.warns(fulgurite.IncompleteWarning):
            version_id = archive.versions("kept")[0].version_id
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert archive.get("kept", version_id=version_id) == b"kept"


def test_a_closed_archive_says_so(made):
    archive = fulgurite.open(made.home)
    file = archive.open("large")
    archive.close()
    archive.close()
    assert archive.closed and "closed" in repr(archive)
    for use in [lambda: archive.get("large"), lambda: archive.id, lambda: list(archive.list()), lambda: file.read()]:
        with pytest.raises(ValueError, match="closed"):
            use()


def test_what_is_no_archive_says_so(tmp_path):
    with pytest.raises(fulgurite.FulguriteError, match="not an archive|no archive"):
        fulgurite.open(tmp_path)
    with pytest.raises(fulgurite.FulguriteError):
        fulgurite.open(tmp_path / "absent")
    with pytest.raises(ValueError, match="empty"):
        fulgurite.open("")


def test_pickles_are_the_folder(made, archive):
    assert pickle.loads(pickle.dumps(archive)).get("night/é.txt") == "é".encode()


def _in_child(archive, queue):
    queue.put([hashlib.sha256(archive.get(f"images/{number:03}.bin")).hexdigest() for number in range(20)])


def test_processes_that_are_spawned_read_too(made, archive):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    children = [context.Process(target=_in_child, args=(archive, queue)) for _ in range(3)]
    for child in children:
        child.start()
    expected = [hashlib.sha256(made.content[f"images/{number:03}.bin"]).hexdigest() for number in range(20)]
    assert [queue.get(timeout=60) for _ in children] == [expected] * 3
    for child in children:
        child.join(60)
        assert child.exitcode == 0


def _try(uses, queue):
    for use in uses:
        try:
            queue.put(use())
        except fulgurite.FulguriteError as error:
            queue.put(str(error))


def test_a_forked_process_is_refused_while_archives_are_open(made):
    """SQLite would take no locks in it, and read what others replaced."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with fulgurite.open(made.home) as archive:
        child = context.Process(target=_try, args=([lambda: archive.get("empty"), lambda: fulgurite.open(made.home).get("empty")], queue))
        child.start()
        assert all("spawn" in queue.get(timeout=60) for _ in range(2))
        child.join(60)
        assert archive.get("empty") == b""
    # Once nothing is open, a child may open it.
    child = context.Process(target=_try, args=([lambda: fulgurite.open(made.home).get("night/é.txt")], queue))
    child.start()
    assert queue.get(timeout=60) == "é".encode()
    child.join(60)


def _forget(archive, items, queue):
    """Uses what the parent began, and drops it."""
    try:
        next(items)
    except ValueError as error:
        queue.put(str(error))
    archive.close()
    del archive, items
    gc.collect()
    queue.put("dropped")


def test_a_child_leaves_alone_what_its_parent_opened(made):
    archive = fulgurite.open(made.home)
    items = archive.iter_many(list(made.content), batch_bytes=1_000)
    next(items)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_forget, args=(archive, items, queue))
    child.start()
    assert "child process" in queue.get(timeout=60) and queue.get(timeout=60) == "dropped"
    child.join(60)
    assert child.exitcode == 0
    assert len(list(items)) == len(made.content) - 1 and archive.get("empty") == b""


def test_threads_share_an_archive(made, archive):
    wrong = []

    def read(first):
        for number in range(first, 200, 4):
            name = f"images/{number:03}.bin"
            if archive.get(name) != made.content[name]:
                wrong.append(name)

    threads = [threading.Thread(target=read, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_archive_that_is_written_meanwhile(tmp_path):
    made = Made(tmp_path)
    made.put({"a": b"one"})
    with fulgurite.open(made.home) as archive:
        assert archive.get("a") == b"one"
        made.put({"a": b"two", "b": b"new"})
        assert archive.get("a") == b"two" and archive.get("b") == b"new"
        made.flush()
        assert archive.get("a") == b"two" and archive.info("a").archived


def test_a_rebuilt_catalogue_is_noticed(tmp_path):
    made = Made(tmp_path)
    made.put({"a": b"one", "b": b"one"})
    made.flush()
    with fulgurite.open(made.home) as archive:
        assert archive.get("a") == b"one"
        for path in made.home.glob("catalogue.db*"):
            path.unlink()
        made.command("catalogue", "rebuild")
        made.put({"a": b"two", "new": b"new"})
        assert archive.get("a") == b"two" and archive.get("new") == b"new"
        assert [entry.name for entry in archive.list()] == ["a", "b", "new"]
        assert archive.get_many(["a", "new"])["content"].to_pylist() == [b"two", b"new"]


def test_an_archive_that_is_gone_says_so(tmp_path):
    made = Made(tmp_path)
    made.put({"a": b"one"})
    with fulgurite.open(made.home) as archive:
        made.home.rename(tmp_path / "elsewhere")
        with pytest.raises(fulgurite.FulguriteError):
            archive.get("a")
        (tmp_path / "elsewhere").rename(made.home)
        assert archive.get("a") == b"one"


def test_another_archive_in_its_place_is_an_error(tmp_path):
    one, two = Made(tmp_path / "one"), Made(tmp_path / "two")
    one.put({"a": b"one"})
    two.put({"a": b"two"})
    with fulgurite.open(one.home) as archive:
        own = archive.id
        assert archive.get("a") == b"one"
        listed = archive.list()
        one.home.rename(tmp_path / "away")
        two.home.rename(one.home)
        uses = [lambda: archive.id, lambda: archive.get("a"), lambda: archive.info("a"), lambda: archive.get_many(["a"]), lambda: next(listed)]
        for use in uses:
            with pytest.raises(fulgurite.FulguriteError, match=f"another archive is now in {one.home}: expected {own}, found "):
                use()
        # Once it is back, it is read again.
        one.home.rename(two.home)
        (tmp_path / "away").rename(one.home)
        assert archive.id == own and archive.get("a") == b"one"


def test_what_began_goes_on_after_close(tmp_path):
    made = Made(tmp_path)
    names = [f"{number:04}" for number in range(2_500)]
    made.put({name: b"" for name in names})
    archive = fulgurite.open(made.home)
    begun = [archive.list(), archive.list(versions=True), archive.list_folder()]
    items, not_begun = archive.iter_many(names, batch_bytes=1), archive.list()
    first = [next(entries) for entries in begun]
    next(items)
    archive.close()
    for entry, entries in zip(first, begun):
        assert [entry.name, *[other.name for other in entries]] == names
    assert len(list(items)) == len(names) - 1
    for use in [lambda: next(not_begun), lambda: next(archive.list()), lambda: archive.info("0001")]:
        with pytest.raises(ValueError, match="closed"):
            use()


def test_dates_beyond_datetime_are_left_out(tmp_path):
    made = Made(tmp_path)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").write_bytes(b"a")
    try:
        os.utime(tmp_path / "files" / "a", (300_000_000_000, 300_000_000_000))
    except OSError:
        pytest.skip("the file system has no such dates")
    run("--archive", made.home, "put", "a", folder=tmp_path / "files")
    with fulgurite.open(made.home) as archive:
        entry = archive.info("a")
        assert entry.modified is None or entry.modified.year < 9_999
        assert entry.created is not None
