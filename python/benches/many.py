"""Reads 100,000 objects of 15 kB, with the package and with others.

    FULGURITE_BIN=target/release/fulgurite python python/benches/many.py FOLDER [OBJECTS]

FOLDER needs 6 GB. Needs the package, pyarrow, boto3 and s3fs. Prints objects/s, the median of three rounds, each from
the page cache:

- Rust: `cargo bench -p fulgurite-archive --bench many`, which looks up all names and reads all content into one buffer
- Archive: get_many (a table), iter_many, and get of one object after another
- Bucket: get_many and iter_many at a server on the same machine, and `fulgurite retrieve` of the same list
- the same objects through boto3 with 16 threads, and through s3fs's cat
- the same files from the file system, one after another
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import s3fs
from botocore.config import Config

import fulgurite

ROUNDS = 3
SIZE = 15_360
PROGRAM = os.environ.get("FULGURITE_BIN", "target/release/fulgurite")


def main(folder, objects):
    program = str(Path(PROGRAM).resolve())
    archive, files, bucket = folder / "archive", folder / "files", "survey"
    random.seed(7)
    blob = random.randbytes(1 << 20)
    names = []
    for number in range(objects):
        name = f"{number // 1000:03}/{number:06}"
        path = files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        offset = number * 7919 % (len(blob) - SIZE)
        path.write_bytes(number.to_bytes(8, "little") + blob[offset : offset + SIZE - 8])
        names.append(name)
    stores = [option for number in range(6) for option in ("--store", folder / f"store{number}")]
    command([program, "init", archive, *stores, "--set", "4+2", "--platter-mib", 1024])
    server = serve(program, archive)
    try:
        keys = {"aws_access_key_id": server["access_key"], "aws_secret_access_key": server["secret_key"]}
        config = Config(max_pool_connections=16)
        client = boto3.client("s3", endpoint_url=server["endpoint"], region_name=server["region"], config=config, **keys)
        client.create_bucket(Bucket=bucket)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: client.put_object(Bucket=bucket, Key=name, Body=(files / name).read_bytes()), names))
        command([program, "--archive", archive, "flush"])
        at_server(program, folder, server, client, bucket, names)
    finally:
        server["process"].terminate()
        server["process"].wait()
    in_place(archive, files, bucket, names)


def in_place(archive, files, bucket, names):
    rust = command(["cargo", "bench", "-q", "-p", "fulgurite-archive", "--bench", "many", "--", archive, ROUNDS])
    report("Rust, read_many", len(names), [float(line.split()[1]) for line in rust.splitlines()])
    stored = [f"{bucket}/{name}" for name in names]
    with fulgurite.open(archive) as opened:
        measure("Archive.get_many", len(names), lambda: opened.get_many(stored).num_rows)
        measure("Archive.iter_many", len(names), lambda: sum(1 for _ in opened.iter_many(stored)))
        few = stored[:: max(1, len(stored) // 10_000)]
        measure("Archive.get", len(few), lambda: sum(1 for name in few if opened.get(name)))
    measure("files, one after another", len(names), lambda: sum(1 for name in names if (files / name).read_bytes()))


def at_server(program, folder, server, client, bucket, names):
    endpoint, region = server["endpoint"], server["region"]
    access_key, secret_key = server["access_key"], server["secret_key"]
    keys = {"access_key": access_key, "secret_key": secret_key, "region": region}
    with fulgurite.connect(endpoint, bucket, **keys) as opened:
        measure("Bucket.get_many", len(names), lambda: opened.get_many(names).num_rows)
        measure("Bucket.iter_many", len(names), lambda: sum(1 for _ in opened.iter_many(names)))
        few = names[:: max(1, len(names) // 5_000)]
        measure("Bucket.get", len(few), lambda: sum(1 for name in few if opened.get(name)))
    listed = folder / "list.txt"
    listed.write_text("\n".join(names))
    environment = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": region, "AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}

    def retrieve():
        command([program, "retrieve", listed, "--bucket", bucket, "--to", folder / "out"], environment)
        shutil.rmtree(folder / "out")

    measure("fulgurite retrieve, into tar files", len(names), retrieve)
    few = names[:: max(1, len(names) // 10_000)]
    with ThreadPoolExecutor(16) as pool:
        get = lambda name: client.get_object(Bucket=bucket, Key=name)["Body"].read()
        measure("boto3, 16 threads", len(few), lambda: sum(1 for _ in pool.map(get, few)))
    files = s3fs.S3FileSystem(key=access_key, secret=secret_key, client_kwargs={"endpoint_url": endpoint, "region_name": region})
    measure("s3fs, cat", len(few), lambda: len(files.cat([f"{bucket}/{name}" for name in few])))


def measure(what, count, work):
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    report(what, count, times)


def report(what, count, times):
    print(f"{what:36} {count / statistics.median(times):>8,.0f} objects/s   {min(times):.2f} to {max(times):.2f} s", flush=True)


def command(arguments, environment=None):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def serve(program, archive):
    arguments = [program, "-A", archive, "--json", "serve", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(list(map(str, arguments)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(process.stdout.readline()) | {"process": process}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
