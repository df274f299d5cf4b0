"""Objects that are replaced or removed while they are read, as a server does it."""

import fsspec
import pytest
from conftest import Made, noise

import fulgurite
from fulgurite import Part


class Served(Made):
    """An archive whose objects are replaced as in a bucket without versions."""

    def replace(self, name, content):
        entry = next(entry for entry in self.listed() if entry["name"] == name)
        self.put({name: content})
        self.command("rm", name, "--version", entry["version"])

    def remove(self, name):
        self.command("rm", name)


@pytest.fixture(params=["staged", "archived"])
def served(request, tmp_path):
    made = Served(tmp_path)
    # One after another: a single command stores several files at a time, in any order.
    for number in range(4):
        made.put({f"t/{number}": noise(number, 3_000)})
    if request.param == "archived":
        made.flush()
    return made


def replace_and_remove(served):
    """Replaces one object by a longer one, and removes another and what staging has of them."""
    served.replace("t/2", noise("successor", 5_000))
    served.remove("t/3")
    served.flush()


def test_the_successor_of_a_replaced_object_is_read(served):
    keys = [f"t/{number}" for number in range(4)]
    with fulgurite.open(served.home) as archive:
        items = archive.iter_many(keys, batch_bytes=1, on_error="keep")
        found = [next(items)]
        assert found[0].number == 0
        replace_and_remove(served)
        found += items
        content = {item.number: item.content for item in found}
        assert content == {0: noise(0, 3_000), 1: noise(1, 3_000), 2: noise("successor", 5_000), 3: b""}
        errors = {item.number: item.error for item in found if item.error}
        assert list(errors) == [3] and isinstance(errors[3], fulgurite.NotFound)


def test_tables_have_the_successors_and_their_versions(served):
    with fulgurite.open(served.home) as archive:
        listed, selection = archive._selection(["t/0", "t/3", "t/2", "t/1"])
        replace_and_remove(served)
        content, packed_ends, errors, _ = selection.read([0, 1, 2, 3])
        ends = memoryview(packed_ends).cast("q").tolist()
        assert ends == [0, 3_000, 3_000, 8_000, 11_000]
        assert content == noise(0, 3_000) + noise("successor", 5_000) + noise(1, 3_000)
        assert list(errors) == [1] and isinstance(errors[1], fulgurite.NotFound)
        ids = [archive.info("t/0").version_id, None, archive.info("t/2").version_id, archive.info("t/1").version_id]
        assert selection.version_ids() == ids
        parts = archive._selection([Part("t/1", 4_000), Part("t/2", 4_000, 6_000)])[1]
        served.replace("t/2", noise("later", 4_500))
        served.flush()
        content, packed_ends, errors, _ = parts.read([0, 1])
        assert (content, memoryview(packed_ends).cast("q").tolist(), errors) == (noise("later", 4_500)[4_000:], [0, 0, 500], {})


def test_a_version_that_is_removed_is_not_lost(served):
    with fulgurite.open(served.home) as archive:
        wanted = [Part("t/2", version_id=archive.info("t/2").version_id), "t/1"]
        items = archive.iter_many(wanted, batch_bytes=1, on_error="keep")
        found = [next(items)]
        assert found[0].number == 1
        replace_and_remove(served)
        found += items
        assert isinstance(found[1].error, fulgurite.NotFound)
        assert str(found[1].error) == "t/2: it was replaced or removed while it was read"
        entry = archive.info("t/1")
        served.remove("t/1")
        served.flush()
        assert archive._native.read(entry, 0, 3_000) is None and archive._native.open(entry) is None


def test_a_new_read_begins_with_the_successor(served, monkeypatch):
    with fulgurite.open(served.home) as archive:
        info, replaced = archive.info, []

        def replaced_after(key, *, version_id=None):
            entry = info(key, version_id=version_id)
            if not replaced:
                replaced.append(key)
                replace_and_remove(served)
            return entry

        monkeypatch.setattr(archive, "info", replaced_after)
        assert archive.get("t/2") == noise("successor", 5_000)
        replaced.clear()
        monkeypatch.setattr(served, "remove", lambda name: None)
        assert archive.open("t/2").read() == noise("successor", 5_000)


def test_an_open_file_stays_the_version_that_was_opened(served):
    files = fsspec.filesystem("fulgurite", archive=str(served.home))
    with fulgurite.open(served.home) as archive:
        with archive.open("t/2") as file, files.open("t/3") as other:
            assert file.read(10) == noise(2, 3_000)[:10]
            replace_and_remove(served)
            with fulgurite.open(served.home) as fresh, pytest.raises(fulgurite.NotFound):
                fresh.get("t/3")
            assert file.read() == noise(2, 3_000)[10:]
            file.seek(5)
            assert file.read(5) == noise(2, 3_000)[5:10]
            assert other.read() == noise(3, 3_000)
        archive_file = archive.open("t/2")
        for path in served.home.glob("catalogue.db*"):
            path.unlink()
        served.command("catalogue", "rebuild")
        assert archive_file.read() == noise("successor", 5_000)
        archive.close()
        with pytest.raises(ValueError, match="closed"):
            archive_file.seek(0)
            archive_file.read()
