"""Spark through S3A: many small objects in, Parquet out, with the rename committer and the magic one."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import urllib.request

import pandas
import pyarrow.parquet as pq
import pytest

BLOBS = 2_000
MAGIC = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "fs.s3a.committer.name": "magic",
    "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
}


def blobs(count: int) -> dict[str, bytes]:
    return {f"night/{number:06}": hashlib.sha256(b"%d" % number).digest() * (1 + number % 64) for number in range(count)}


def digests(contents: dict[str, bytes]) -> dict[str, str]:
    return {key: hashlib.sha256(content).hexdigest() for key, content in contents.items()}


def rows(stored: dict[str, bytes]) -> pandas.DataFrame:
    """What the Parquet files among the objects contain, as pyarrow reads it."""
    tables = [pq.read_table(io.BytesIO(content)).to_pandas() for key, content in stored.items() if key.endswith(".parquet")]
    return pandas.concat(tables, ignore_index=True)


@pytest.fixture
def magic(spark):
    """Spark with the magic committer while the test runs."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in MAGIC.items():
        spark.conf.set(name, value) if name.startswith("spark.") else hadoop.set(name, value)
    yield spark
    for name in MAGIC:
        spark.conf.unset(name) if name.startswith("spark.") else hadoop.unset(name)


def test_small_objects_are_digested_and_the_digests_come_back_as_parquet(spark, bucket, put_all, stored):
    from pyspark.sql import functions as F

    contents = blobs(BLOBS)
    put_all(bucket, contents)
    read = spark.read.format("binaryFile").load(f"s3a://{bucket}/night")
    read.select("path", F.sha2("content", 256).alias("sha256")).write.parquet(f"s3a://{bucket}/out")

    start = len(f"s3a://{bucket}/")
    found = rows(stored(bucket, "out/"))
    assert dict(zip(found["path"].str[start:], found["sha256"])) == digests(contents)
    back = spark.read.parquet(f"s3a://{bucket}/out").collect()
    assert {row.path[start:]: row.sha256 for row in back} == digests(contents)


def test_a_task_fetches_its_objects_with_one_bulk_get(spark, bucket, put_all):
    contents = blobs(BLOBS)
    put_all(bucket, contents)

    def fetch(frames):
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.session import get_session

        url = f"{os.environ['AWS_ENDPOINT_URL']}/{bucket}?retrieve"
        for frame in frames:
            body = json.dumps({"objects": list(frame["key"])}).encode()
            signed = AWSRequest("POST", url, data=body)
            S3SigV4Auth(get_session().get_credentials(), "s3", os.environ["AWS_REGION"]).add_auth(signed)
            request = urllib.request.Request(url, body, dict(signed.headers))
            with urllib.request.urlopen(request) as answer, tarfile.open(fileobj=answer, mode="r|") as tar:
                content = {entry.name: tar.extractfile(entry).read() for entry in tar}
            # The last entry, without which the response is incomplete.
            result = json.loads(content["result.json"])["objects"]
            found = [(line["key"], hashlib.sha256(content[line["entry"]]).hexdigest()) for line in result]
            yield pandas.DataFrame(found, columns=["key", "sha256"])

    keys = spark.createDataFrame(pandas.DataFrame({"key": list(contents)})).repartition(2)
    keys.mapInPandas(fetch, "key string, sha256 string").write.parquet(f"s3a://{bucket}/out")
    back = spark.read.parquet(f"s3a://{bucket}/out").collect()
    assert {row.key: row.sha256 for row in back} == digests(contents)


def test_the_rename_committer_leaves_only_the_result(spark, bucket, stored):
    spark.range(1_000).repartition(3).write.parquet(f"s3a://{bucket}/out")
    names = {key.rpartition("/")[2].partition("-")[0] for key in stored(bucket)}
    assert names - {""} == {"part", "_SUCCESS"}
    assert sorted(rows(stored(bucket))["id"]) == list(range(1_000))


def test_the_magic_committer_writes_and_leaves_only_the_result(magic, s3, bucket, stored):
    frame = magic.range(1_000).selectExpr("id", "id % 3 AS chip")
    frame.repartition(3).write.partitionBy("chip").parquet(f"s3a://{bucket}/out")
    kept = stored(bucket)
    # S3A's committers describe themselves here; the rename committer leaves it empty.
    assert json.loads(kept["out/_SUCCESS"])["committer"] == "magic"
    assert not [key for key in kept if "__magic" in key or "_temporary" in key]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    assert sorted(rows(kept)["id"]) == list(range(1_000))
    assert magic.read.parquet(f"s3a://{bucket}/out").where("chip = 2").count() == 333


def test_the_magic_committer_overwrites_and_appends(magic, bucket):
    where = f"s3a://{bucket}/out"
    for mode, count in [("overwrite", 10), ("append", 20), ("overwrite", 10)]:
        magic.range(10).write.mode(mode).parquet(where)
        assert magic.read.parquet(where).count() == count, mode


def test_a_failed_job_of_the_magic_committer_leaves_no_data_and_no_upload(magic, s3, bucket, stored):
    frame = magic.range(10).repartition(2).selectExpr("assert_true(id < 9) AS nothing", "id")
    with pytest.raises(Exception, match="assert_true|is not true|USER_RAISED"):
        frame.write.parquet(f"s3a://{bucket}/out")
    assert not [key for key, content in stored(bucket).items() if content]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_an_archived_object_is_refused_until_it_is_restored(spark, s3, bucket, restore):
    s3.put_object(Bucket=bucket, Key="in/archived", Body=b"archived", StorageClass="GLACIER")
    read = spark.read.format("binaryFile").load(f"s3a://{bucket}/in")
    assert read.select("path", "length").collect()[0].length == 8
    with pytest.raises(Exception, match="in/archived"):
        read.collect()
    restore(bucket, "in/archived")
    assert [bytes(row.content) for row in read.collect()] == [b"archived"]
