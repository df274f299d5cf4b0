"""Many objects at once, as tables, arrays and items."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import Made, noise

import fulgurite
from fulgurite import Part


def keys_of(made):
    return [name for name in made.content if isinstance(name, str)]


def test_a_table_has_the_order_of_the_list(made, archive):
    keys = keys_of(made)[::-1] + ["large", "empty"]
    table = archive.get_many(keys)
    assert table.schema == pa.schema([("key", pa.string()), ("version_id", pa.string()), ("content", pa.large_binary()), ("error", pa.string())])
    table.validate(full=True)
    assert table["key"].to_pylist() == keys
    assert table["content"].to_pylist() == [made.content[key] for key in keys]
    assert table["error"].null_count == len(keys) and table["content"].null_count == 0
    assert table["version_id"].to_pylist() == [archive.info(key).version_id for key in keys]
    assert archive.get_many([]).num_rows == 0 and archive.get_many([]).schema == table.schema


def test_failures_are_rows_or_raise(made, archive):
    keys = ["absent", "large", "gone", "empty", *[f"no/{number}" for number in range(20)], "night/é.txt"]
    with pytest.raises(fulgurite.NotFound, match="absent"):
        archive.get_many(keys)
    with pytest.raises(fulgurite.NotFound, match="absent"):
        list(archive.iter_many(keys))
    table = archive.get_many(keys, on_error="keep")
    table.validate(full=True)
    content = [made.content.get(key) for key in keys]
    assert table["content"].to_pylist() == content
    for key, error, whole in zip(keys, table["error"].to_pylist(), content):
        assert (error is None) == (whole is not None) and (error is None or error.startswith(f"{key}: "))
    items = {item.number: item for item in archive.iter_many(keys, on_error="keep")}
    assert sorted(items) == list(range(len(keys)))
    for index, whole in enumerate(content):
        assert items[index].key == keys[index] and items[index].content == (whole or b"")
        assert isinstance(items[index].error, fulgurite.NotFound) == (whole is None)
    with pytest.raises(ValueError, match="on_error"):
        archive.get_many(keys, on_error="ignore")
    with pytest.raises(ValueError, match="on_error"):
        archive.iter_many(keys, on_error="ignore")


def test_items_come_in_the_order_of_the_medium(made, archive):
    keys = keys_of(made)
    shuffled = sorted(keys, key=lambda key: noise(key, 8))
    items = list(archive.iter_many(shuffled, batch_bytes=100_000))
    assert sorted(item.number for item in items) == list(range(len(keys)))
    assert all(item.key == shuffled[item.number] and item.content == made.content[item.key] for item in items)
    assert [item.key for item in items] == [item.key for item in archive.iter_many(keys, batch_bytes=1)]
    with pytest.raises(ValueError, match="batch_bytes"):
        archive.iter_many(keys, batch_bytes=0)
    with pytest.raises(TypeError):
        archive.iter_many(keys, batch_bytes=1.5)
    assert len(list(archive.iter_many(keys, batch_bytes=2**70))) == len(keys)


def test_names_are_bytes_too(made, archive):
    assert [item.content for item in archive.iter_many([b"raw/\xff\xfe", "raw/\udcff\udcfe"])] == [b"not UTF-8"] * 2
    with pytest.raises(ValueError, match="UTF-8"):
        archive.get_many([b"raw/\xff\xfe"])
    assert archive.get_many([b"large"])["key"].to_pylist() == ["large"]
    with pytest.raises(TypeError, match="list of keys"):
        archive.get_many("large")
    with pytest.raises(TypeError, match="not 7"):
        archive.get_many([7])
    for wrong in [Path("large"), pa.scalar(7), pa.scalar(None, pa.string())]:
        with pytest.raises(TypeError, match="a list has keys"):
            archive.get_many([wrong])
    table = archive.get_many(archive.list("night/"))
    assert table["content"].to_pylist() == ["é".encode()]


def test_arrays_of_arrow_are_lists(made, archive):
    names = [f"staged/{number}" for number in range(5)]
    table = archive.get_many(names)
    for keys in [table["key"], pa.array(names), pa.array(names, pa.large_string()), pa.array([name.encode() for name in names]), pa.array(names).dictionary_encode()]:
        assert archive.get_many(keys)["content"].to_pylist() == [made.content[name] for name in names]
        assert sorted(item.key if isinstance(item.key, str) else item.key.decode() for item in archive.iter_many(keys)) == names


def test_lists_need_no_arrow(made):
    code = "import sys, fulgurite; assert len(list(fulgurite.open(sys.argv[1]).iter_many(['large']))) == 1 and 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, made.home], check=True)


def test_parts(made, archive):
    content = made.content["large"]
    parts = [Part("large", 5, 10), Part("large", 2_999_990), "large", Part("large", 0, 9_999_999), Part("empty", 3), Part("large", 65_536, 131_072), Part("large", 9_999_999, 10_000_000)]
    expected = [content[5:10], content[-10:], content, content, b"", content[65_536:131_072], b""]
    assert archive.get_many(parts)["content"].to_pylist() == expected
    assert [item.content for item in sorted(archive.iter_many(parts))] == expected
    assert archive.get_many([Part("large", 5, 4), Part("large", 0, 2**70)])["content"].to_pylist() == [b"", content]
    with pytest.raises(ValueError, match="not negative"):
        archive.get_many([Part("large", -1)])
    with pytest.raises(TypeError):
        archive.get_many([Part("large", 0.5)])
    table = archive.get_many([Part("large", version_id="latest"), "large", "empty"], on_error="keep")
    assert table["content"].to_pylist() == [None, content, b""]
    items = sorted(archive.iter_many(["\ud800", "empty"], on_error="keep"))
    assert isinstance(items[0].error, fulgurite.NotFound) and items[1].error is None


def test_arrays(made, archive):
    keys = [f"staged/{number}" for number in range(50)]
    expected = b"".join(made.content[key] for key in keys)
    array = archive.get_array(keys, ">f4")
    assert array.shape == (50, 3_750) and array.dtype == np.dtype(">f4") and not array.flags.writeable
    assert array.tobytes() == expected
    assert archive.get_array(keys, "u1", (150, 100)).shape == (50, 150, 100)
    assert archive.get_array(keys, "u1", (-1, 100)).shape == (50, 150, 100)
    for shape in [15_000, [15_000], np.int32(15_000), np.array([15_000])]:
        assert archive.get_array(keys, "u1", shape).shape == (50, 15_000)
    assert archive.get_array(keys, "u1", [150, -1]).shape == (50, 150, 100)
    for wrong in ["15000", 15_000.0, [150.0, 100]]:
        with pytest.raises(TypeError):
            archive.get_array(keys, "u1", wrong)
    assert archive.get_array([Part(key, 0, 4) for key in keys], "<i4", ()).shape == (50,)
    assert archive.get_array([], "f8", (-1, 3)).shape == (0, 0, 3)
    with pytest.raises(ValueError, match="images/001.bin has 1037 bytes, and images/000.bin has 1000"):
        archive.get_array(["images/000.bin", "images/001.bin"], "u1")
    for shape in [(7,), (-1, 7), (-1, -1), (-2,), (0,)]:
        with pytest.raises(ValueError):
            archive.get_array(keys, "u1", shape)
    with pytest.raises(ValueError, match="staged/0 .*takes 15876; a Part"):
        archive.get_array(keys, ">f4", (63, 63))
    with pytest.raises(fulgurite.NotFound):
        archive.get_array([*keys, "absent"], "u1")


def test_memory_holds_a_batch(tmp_path):
    made = Made(tmp_path)
    made.put({f"{number:03}": noise(number, 200_000) for number in range(100)})
    with fulgurite.open(made.home) as archive:
        tracemalloc.start()
        try:
            total = 0
            for item in archive.iter_many([f"{number:03}" for number in range(100)], batch_bytes=1_000_000):
                total += len(item.content)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert total == 20_000_000 and peak < 4_000_000
