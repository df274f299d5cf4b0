"""Archives for the tests, made by the program `fulgurite`, which FULGURITE_BIN names."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

import fulgurite

PROGRAM = os.environ.get("FULGURITE_BIN", "fulgurite")


def run(*arguments, folder=None, status=0, environment=None):
    """Runs the program, which ends with `status` unless that is None. Returns what it prints."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    assert status is None or done.returncode == status, done.stdout + done.stderr
    return done.stdout


def noise(number, size):
    """Content that differs for each number."""
    return hashlib.shake_128(str(number).encode()).digest(size)


class Made:
    """An archive with stores in folders, and what was put into it."""

    def __init__(self, root, stores=3, shape="2+1", platter_mib=8):
        self.root = Path(root)
        self.home = self.root / "archive"
        self.stores = [self.root / f"d{number}" for number in range(1, stores + 1)]
        self.content = {}
        options = [option for store in self.stores for option in ("--store", store)]
        run("init", self.home, *options, "--set", shape, "--platter-mib", platter_mib)

    def put(self, files):
        """Puts files, by name and content, from a folder that has nothing else."""
        folder = self.root / "files"
        for name, content in files.items():
            path = os.path.join(os.fsencode(folder), name if isinstance(name, bytes) else name.encode())
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        names = sorted({(name if isinstance(name, bytes) else name.encode()).split(b"/")[0] for name in files})
        run("--archive", self.home, "put", *map(os.fsdecode, names), folder=folder)
        self.content.update(files)

    def flush(self):
        run("--archive", self.home, "flush")

    def command(self, *arguments, status=0):
        return run("--archive", self.home, *arguments, status=status)

    def listed(self):
        """The entries that the program lists."""
        return [json.loads(line) for line in self.command("--json", "ls").splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An archive with objects on platters and in staging."""
    made = Made(tmp_path_factory.mktemp("made"))
    made.put({f"images/{number:03}.bin": noise(number, 1_000 + 37 * number) for number in range(200)})
    made.put({"large": noise("large", 3_000_000), "empty": b"", "night/é.txt": "é".encode(), b"raw/\xff\xfe": b"not UTF-8"})
    made.flush()
    made.put({f"staged/{number}": noise(number, 15_000) for number in range(50)})
    return made


@pytest.fixture
def archive(made):
    with fulgurite.open(made.home) as archive:
        yield archive
