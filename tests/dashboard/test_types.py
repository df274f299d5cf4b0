"""The types of the scripts of the dashboard and the viewer, as their comments state them. The viewer
computes with flat arrays of numbers, so it may take elements without asking whether they exist."""

from __future__ import annotations

import json
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


def check(project: Path, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run([*compiler(), "--project", str(project), *options], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The types of the viewer's scripts, which the dashboard's import."""
    folder = tmp_path_factory.mktemp("types")
    options = ["--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--outDir", str(folder)]
    checked = check(FOLDER / "tsconfig.viewer.json", *options)
    assert checked.returncode == 0, checked.stdout
    return folder


def dashboard_settings(declared: Path, scripts: Path, place: Path) -> Path:
    """Settings for scripts that import the viewer's as if they lay beside them."""
    settings = json.loads((FOLDER / "tsconfig.json").read_text())
    settings["compilerOptions"]["rootDirs"] = [str(scripts), str(declared)]
    settings["include"] = [f"{scripts}/*.js"]
    written = place / "tsconfig.json"
    written.write_text(json.dumps(settings))
    return written


def test_the_types_of_the_scripts_agree(declared: Path, tmp_path: Path):
    scripts = FOLDER.parent.parent / "crates/service/src/dashboard/web"
    checked = check(dashboard_settings(declared, scripts, tmp_path))
    assert checked.returncode == 0, checked.stdout


def test_a_wrong_type_is_found(declared: Path, tmp_path: Path):
    call = "import { lastBefore } from \"./course.js\";\nlastBefore([], 2, \"3\");\n"
    (tmp_path / "wrong.js").write_text("/** @param {number} value */\nexport function half(value) {\n  return value.length;\n}\n" + call)
    checked = check(dashboard_settings(declared, tmp_path, tmp_path))
    assert checked.returncode != 0 and "wrong.js(3," in checked.stdout and "wrong.js(6," in checked.stdout, checked.stdout
