"""The notebooks run as they are. Their cells contain assertions."""

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from conftest import PROGRAM
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.ipynb")))
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    program = Path(shutil.which(PROGRAM) or PROGRAM).resolve()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "fulgurite").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", 4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "notebooks are kept without outputs"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    if folder := os.environ.get("FULGURITE_NOTEBOOKS"):
        nbformat.write(notebook, Path(folder) / f"{name}.ipynb")
    pictures = [output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    assert bool(pictures) == (name != "lost_disks")
