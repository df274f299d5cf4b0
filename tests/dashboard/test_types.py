"""The types of the scripts of the dashboard and the viewer, as their comments state them. The viewer
computes with flat arrays of numbers, so it may take elements without asking whether they exist."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent


def compiler() -> list[str]:
    script = os.environ.get("FULGURITE_TSC", "")
    node = shutil.which("node")
    if not node or not Path(script).is_file():
        pytest.skip("no TypeScript compiler")
    return [node, script]


def check(project: Path) -> subprocess.CompletedProcess:
    return subprocess.run([*compiler(), "--project", str(project)], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("project", ["tsconfig.json", "tsconfig.viewer.json"])
def test_the_types_of_the_scripts_agree(project: str):
    checked = check(FOLDER / project)
    assert checked.returncode == 0, checked.stdout


def test_a_wrong_type_is_found(tmp_path: Path):
    settings = (FOLDER / "tsconfig.json").read_text().replace("../../crates/service/src/dashboard/web/*.js", "*.js")
    (tmp_path / "tsconfig.json").write_text(settings)
    (tmp_path / "wrong.js").write_text("/** @param {number} value */\nexport function half(value) {\n  return value.length;\n}\n")
    checked = check(tmp_path)
    assert checked.returncode != 0 and "wrong.js(3," in checked.stdout, checked.stdout
