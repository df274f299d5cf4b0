"""DuckDB's httpfs: Parquet read by glob, written whole and partitioned; small objects."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import duckdb_extension_httpfs
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def db(server):
    """A database with the extension from PyPI; `INSTALL httpfs` downloads the same from DuckDB's server."""
    (extension,) = Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension")
    with duckdb.connect() as db:
        db.execute(f"LOAD '{extension}'")
        db.execute(f"""CREATE SECRET (TYPE s3, KEY_ID '{server.main.access_key}', SECRET '{server.main.secret_key}',
            REGION '{server.region}', ENDPOINT '{urlsplit(server.endpoint).netloc}', URL_STYLE 'path', USE_SSL false)""")
        yield db


def ids(content: bytes) -> list[int]:
    return pq.read_table(io.BytesIO(content))["id"].to_pylist()


def test_a_table_is_written_in_parts_and_read_back(db, s3, bucket, stored):
    db.execute("SET s3_uploader_max_filesize = '50GB'")
    db.execute(f"COPY (SELECT range AS id, hash(range) AS h FROM range(2_000_000)) TO 's3://{bucket}/a b+é.parquet'")
    head = s3.head_object(Bucket=bucket, Key="a b+é.parquet")
    assert ids(stored(bucket)["a b+é.parquet"]) == list(range(2_000_000))
    assert "-" in head["ETag"]
    assert db.sql(f"SELECT count(*), sum(id) FROM 's3://{bucket}/a b+é.parquet'").fetchone() == (2_000_000, 1_999_999_000_000)


def test_partitions_are_written_read_by_glob_and_overwritten(db, bucket, stored):
    copy = f"COPY (SELECT range AS id, range % 3 AS chip FROM range(3000)) TO 's3://{bucket}/t' (FORMAT parquet, PARTITION_BY (chip)"
    db.execute(f"{copy})")
    found = {key.split("/")[1]: ids(content) for key, content in stored(bucket).items()}
    assert {name: sorted(kept) for name, kept in found.items()} == {f"chip={chip}": list(range(chip, 3000, 3)) for chip in range(3)}
    assert db.sql(f"SELECT sum(id) FROM read_parquet('s3://{bucket}/t/**/*.parquet') WHERE chip = 1").fetchone() == (1_499_500,)
    assert db.sql(f"SELECT count(*) FROM 's3://{bucket}/t/chip=[12]/*.parquet'").fetchone() == (2000,)
    with pytest.raises(duckdb.IOException, match="not empty"):
        db.execute(f"{copy})")
    db.execute(f"{copy}, APPEND)")
    assert db.sql(f"SELECT count(*) FROM 's3://{bucket}/t/*/*.parquet'").fetchone() == (6000,)
    db.execute(f"{copy}, OVERWRITE)")
    assert db.sql(f"SELECT count(*) FROM 's3://{bucket}/t/*/*.parquet'").fetchone() == (3000,)


def test_small_objects_are_digested(db, bucket, put_all):
    contents = {f"night/{number:06}": b"%d" % number * 999 for number in range(2_500)}
    put_all(bucket, contents)
    found = db.sql(f"SELECT filename, sha256(content) FROM read_blob('s3://{bucket}/night/*')").fetchall()
    start = len(f"s3://{bucket}/")
    assert {name[start:]: digest for name, digest in found} == {key: hashlib.sha256(content).hexdigest() for key, content in contents.items()}


def test_an_archived_table_is_refused_until_it_is_restored(db, s3, bucket, stored, restore):
    db.execute(f"COPY (SELECT range AS id FROM range(1000)) TO 's3://{bucket}/now.parquet'")
    s3.copy_object(Bucket=bucket, Key="archived.parquet", CopySource=f"{bucket}/now.parquet", StorageClass="GLACIER")
    with pytest.raises(duckdb.HTTPException, match="InvalidObjectState"):
        db.sql(f"SELECT count(*) FROM 's3://{bucket}/archived.parquet'").fetchone()
    restore(bucket, "archived.parquet")
    assert db.sql(f"SELECT sum(id) FROM 's3://{bucket}/archived.parquet'").fetchone() == (499_500,)
