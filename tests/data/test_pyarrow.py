"""pyarrow's own S3 file system, and datasets on it."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs


@pytest.fixture
def arrow(server) -> fs.S3FileSystem:
    """Keys and region come from the environment."""
    return fs.S3FileSystem(endpoint_override=server.endpoint)


@pytest.fixture
def table() -> pa.Table:
    return pa.table({"id": range(10_000), "chip": [number % 4 for number in range(10_000)]})


def test_files_are_written_in_parts_read_in_ranges_copied_and_moved(arrow, s3, bucket, stored):
    content = random.Random(1).randbytes(24_000_001)
    with arrow.open_output_stream(f"{bucket}/a/100% é+.bin", metadata={"Content-Type": "image/fits"}) as out:
        out.write(content)
    assert stored(bucket) == {"a/100% é+.bin": content}
    head = s3.head_object(Bucket=bucket, Key="a/100% é+.bin")
    assert head["ContentType"] == "image/fits" and "-" in head["ETag"]
    with arrow.open_input_file(f"{bucket}/a/100% é+.bin") as file:
        assert file.size() == len(content)
        assert file.read_at(5_000, 17_000_003) == content[17_000_003:17_005_003]
    arrow.copy_file(f"{bucket}/a/100% é+.bin", f"{bucket}/b/copy")
    arrow.move(f"{bucket}/b/copy", f"{bucket}/b/moved")
    assert stored(bucket, "b/moved") == {"b/moved": content}
    assert "b/copy" not in stored(bucket)


def test_a_partitioned_dataset_is_written_filtered_and_replaced(arrow, bucket, table, stored):
    how = {"filesystem": arrow, "format": "parquet", "partitioning": ["chip"], "partitioning_flavor": "hive"}
    ds.write_dataset(table, f"{bucket}/t", **how)
    kept = {key.split("/")[1]: pq.read_table(io.BytesIO(content))["id"].to_pylist() for key, content in stored(bucket).items() if content}
    assert kept == {f"chip={chip}": list(range(chip, 10_000, 4)) for chip in range(4)}

    read = ds.dataset(f"{bucket}/t", filesystem=arrow, partitioning="hive")
    assert read.to_table(filter=ds.field("chip") == 3, columns=["id"])["id"].to_pylist() == list(range(3, 10_000, 4))
    only = table.filter(pc.equal(table["chip"], 2)).slice(0, 5)
    ds.write_dataset(only, f"{bucket}/t", existing_data_behavior="delete_matching", **how)
    read = ds.dataset(f"{bucket}/t", filesystem=arrow, partitioning="hive")
    assert read.count_rows(filter=ds.field("chip") == 2) == 5 and read.count_rows() == 7_505


def test_folders_are_created_listed_and_deleted(arrow, bucket, table, stored):
    pq.write_table(table, f"{bucket}/a/b/t.parquet", filesystem=arrow)
    arrow.create_dir(f"{bucket}/a/empty")
    listed = {info.path.partition("/")[2]: info.type.name for info in arrow.get_file_info(fs.FileSelector(bucket, recursive=True))}
    assert listed == {"a": "Directory", "a/b": "Directory", "a/b/t.parquet": "File", "a/empty": "Directory"}
    arrow.delete_dir_contents(f"{bucket}/a/b")
    assert arrow.get_file_info(f"{bucket}/a/b/t.parquet").type == fs.FileType.NotFound
    arrow.delete_dir(f"{bucket}/a")
    assert stored(bucket) == {}


def test_an_archived_table_is_refused_until_it_is_restored(arrow, s3, bucket, table, restore):
    pq.write_table(table, f"{bucket}/now.parquet", filesystem=arrow)
    s3.copy_object(Bucket=bucket, Key="archived.parquet", CopySource=f"{bucket}/now.parquet", StorageClass="GLACIER")
    # Where the object is smaller than the error, pyarrow can't read the error.
    with pytest.raises(OSError, match="archived.parquet|storage class|ACCESS_DENIED|INTERNAL_FAILURE"):
        pq.read_table(f"{bucket}/archived.parquet", filesystem=arrow)
    restore(bucket, "archived.parquet")
    assert pq.read_table(f"{bucket}/archived.parquet", filesystem=arrow).equals(table)
