"""The package is typed, and its stubs say what the extension module has."""

import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = Path(__file__).resolve().parents[1] / "pyproject.toml"


@pytest.mark.parametrize(
    "arguments",
    [
        ["mypy", "--config-file", SETTINGS, "--cache-dir", "{cache}", "-p", "fulgurite"],
        ["mypy.stubtest", "--mypy-config-file", SETTINGS, "fulgurite._native"],
    ],
)
def test_the_types_are_right(arguments, tmp_path):
    command = [str(argument).format(cache=tmp_path) for argument in arguments]
    done = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_public_is_documented():
    import fulgurite
    from fulgurite import filesystem, results, twin

    missing = []
    for module in [fulgurite, filesystem, results, twin]:
        names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
        for name in names:
            one = getattr(module, name)
            if getattr(one, "__module__", "").startswith("fulgurite") and callable(one):
                members = [f"{name}.{member}" for member, value in vars(one).items() if not member.startswith("_") and callable(value) and not _doc(one, member)] if isinstance(one, type) and not issubclass(one, BaseException) else []
                missing += members + ([] if one.__doc__ else [name])
    assert missing == []


def _doc(one, member):
    return any(getattr(vars(base).get(member), "__doc__", None) for base in one.__mro__)
