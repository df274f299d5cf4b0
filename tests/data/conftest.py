"""One server for all tests, a bucket for each, and a Spark session that the Spark tests share.

    FULGURITE_BIN     the server, see ../s3/serving.py
    FULGURITE_JARS    a folder with the jars that pom.xml names; without it, tests of Spark and DistCp are skipped

The tests compare contents through boto3, whatever the client reports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serving import Own, connect, wait_until
from wire import Server

FOLDER = Path(__file__).resolve().parent
JOB_S = 120

os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
for name in [name for name in os.environ if name.startswith("AWS_") and not name.endswith("_FILE")]:
    del os.environ[name]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Own(tmp_path_factory.mktemp("data")) as own:
        yield own.server
    shutil.rmtree(own.archive, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def environment(server: Server) -> None:
    """What all clients read, as users set it."""
    os.environ |= {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_REGION": server.region,
        "AWS_DEFAULT_REGION": server.region,
        "AWS_ACCESS_KEY_ID": server.main.access_key,
        "AWS_SECRET_ACCESS_KEY": server.main.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


@pytest.fixture(scope="session")
def s3(server: Server):
    return connect(server, server.main)


@pytest.fixture
def bucket(s3) -> str:
    name = f"data-{uuid.uuid4().hex[:24]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def stored(s3) -> Callable[..., dict[str, bytes]]:
    """The objects of a bucket, as boto3 reads them."""

    def read(bucket: str, prefix: str = "") -> dict[str, bytes]:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    return read


@pytest.fixture
def put_all(s3) -> Callable[[str, dict[str, bytes]], None]:
    def put(bucket: str, contents: dict[str, bytes]) -> None:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda entry: s3.put_object(Bucket=bucket, Key=entry[0], Body=entry[1]), contents.items()))

    return put


@pytest.fixture
def restore(s3) -> Callable[[str, str], None]:
    """Restores an archived object and waits until it can be read."""

    def run(bucket: str, key: str) -> None:
        request = {"Days": 1, "GlacierJobParameters": {"Tier": "Expedited"}}
        s3.restore_object(Bucket=bucket, Key=key, RestoreRequest=request)
        wait_until("it is restored", lambda: 'ongoing-request="false"' in s3.head_object(Bucket=bucket, Key=key)["Restore"])

    return run


@pytest.fixture(scope="session")
def jars() -> list[str]:
    found = sorted(Path(os.environ.get("FULGURITE_JARS") or FOLDER / "jars").glob("*.jar"))
    if not found or not shutil.which("java"):
        pytest.skip("no jars: mvn -f pom.xml dependency:copy-dependencies -DoutputDirectory=jars, or set FULGURITE_JARS")
    return list(map(str, found))


@pytest.fixture(scope="session")
def pyspark_jars() -> str:
    import pyspark

    return f"{Path(pyspark.__file__).parent}/jars/*"


@pytest.fixture(scope="session")
def committer(jars, pyspark_jars, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class that lets Spark use the magic committer, compiled."""
    classes = tmp_path_factory.mktemp("classes")
    source = FOLDER / "PathOutputCommitProtocol.java"
    subprocess.run(["javac", "-nowarn", "-cp", pyspark_jars, "-d", classes, source], check=True, capture_output=True, timeout=JOB_S)
    return str(classes)


S3A = {
    "fs.s3a.path.style.access": "true",
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    # The default, analytics, keeps what it has read in memory.
    "fs.s3a.input.stream.type": "classic",
}


def s3a(server: Server) -> dict[str, str]:
    return {"fs.s3a.endpoint": server.endpoint, "fs.s3a.endpoint.region": server.region} | S3A


@pytest.fixture(scope="session")
def spark(server: Server, environment, jars, committer) -> Iterator:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", ":".join([*jars, committer]))
    for name, value in s3a(server).items():
        builder = builder.config(f"spark.hadoop.{name}", value)
    settings = {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # Otherwise each small file counts as 4 MB, which makes many tasks.
        "spark.sql.files.openCostInBytes": "0",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def distcp(server: Server, jars, pyspark_jars, tmp_path) -> Callable[..., dict[str, int]]:
    """Runs DistCp, which has to succeed, and returns its counters."""
    settings = s3a(server) | {"hadoop.tmp.dir": str(tmp_path / "hadoop")}
    command = ["java", "-Xmx1g", "-Dlog4j2.level=INFO", "-cp", ":".join([*jars, pyspark_jars]), "org.apache.hadoop.tools.DistCp"]
    command += [f"-D{name}={value}" for name, value in settings.items()]

    def run(*arguments: object) -> dict[str, int]:
        ran = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path, timeout=JOB_S)
        said = ran.stdout + ran.stderr
        assert ran.returncode == 0, said
        return counters(said)

    return run


def counters(log: str) -> dict[str, int]:
    """The last `NAME=NUMBER` of each name: the counters of the whole job."""
    lines = (line.strip().partition("=") for line in log.splitlines())
    return {name: int(value) for name, _, value in lines if value.isdigit()}
