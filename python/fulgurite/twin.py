"""The digital twin: runs, sweeps and experiments with policies, as data frames.

A scenario is a file, as for `fulgurite twin run`; `settings` change its settings:

>>> from fulgurite import twin
>>> runs = twin.sweep("scenarios/iops.toml", {"shuttles.count": [8, 12, 20]}, seeds=3)
>>> runs.groupby("shuttles.count")["tail_s"].mean()

The frames' `attrs` have the unit and the meaning of each column, and what the runs missed of the
scenario's expectations. Needs pandas.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from . import _native
from ._objects import needed
from ._native import Collect, Fetch, IdleShuttle, ReadDrive, View, WaitingPlatter

if TYPE_CHECKING:
    import pandas as pd


class NumpyScalar(Protocol):
    """A number or truth value of NumPy."""

    def item(self) -> Any:
        """The same as an object of Python."""


Setting = str | int | float | bool | NumpyScalar
Path = str | os.PathLike[str]

#: Counts are at most this many.
_COUNT_MAX = (1 << 32) - 1
#: Seeds are at most this.
_SEED_MAX = (1 << 64) - 1


class UnmetWarning(UserWarning):
    """Runs missed what their scenario expects, or requests had not ended when a run stopped."""


class Policy(Protocol):
    """Decides what moves next. For experiments: each decision copies what the policy sees, which takes
    milliseconds when thousands of platters wait."""

    def assign(self, view: View) -> Fetch | Collect | None:
        """A task for one of the idle shuttles, or None if there is nothing to do.

        It is called again until it returns None, and whenever something changed while a shuttle is
        idle and a platter waits. `Fetch(shuttle, platter, drive)` brings a waiting platter to a
        drive that `can_take` it; `Collect(shuttle, drive)` takes a platter home from a drive that
        has a `released_bay`. All are numbers, such as `view.shuttles[0].number`. An impossible task
        ends the run with ValueError.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A scenario as it would run."""

    name: str
    title: str
    settings: str
    """All settings, also those that have their defaults, as TOML."""


def scenario(path: Path, settings: Mapping[str, Setting] | None = None) -> Scenario:
    """Reads a scenario. Raises ValueError with all mistakes of the file and the settings."""
    return Scenario(*_native.scenario(os.fspath(path), _assignments(settings)))


def run(
    path: Path,
    settings: Mapping[str, Setting] | None = None,
    *,
    seeds: int = 1,
    seed: int | None = None,
    threads: int | None = None,
    policy: Callable[[], Policy] | None = None,
) -> pd.DataFrame:
    """Runs a scenario with several seeds, from `seed` (default: the scenario's) on.

    The frame has a row for each seed, with all figures of `fulgurite twin run`. `policy` makes a
    policy for each library, in place of the scenario's; then runs follow one another. A run ends when
    its measured requests have ended, at the latest after `run.cool_down`, 30 days by default: set it
    to an hour while you write a policy. Warns with `UnmetWarning` if expectations were missed.
    """
    _check_count("seeds", seeds)
    _check_seed(seed)
    if policy is None:
        _check_threads(threads)
        table, missed, _ = _native.run(os.fspath(path), _assignments(settings), seed, seeds, threads, False)
    else:
        if not callable(policy):
            raise TypeError("policy is a class, or a function that makes a policy")
        table, missed = _native.run_policy(os.fspath(path), _assignments(settings), seed, seeds, policy)
    return _frame(table, missed)


def timeline(
    path: Path, settings: Mapping[str, Setting] | None = None, *, seed: int | None = None
) -> pd.DataFrame:
    """The course of one run: queues, completion times, and what drives and shuttles do, over time."""
    _check_seed(seed)
    _, missed, course = _native.run(os.fspath(path), _assignments(settings), seed, 1, 1, True)
    assert course is not None
    return _frame(course, missed)


def sweep(
    path: Path,
    vary: Mapping[str, Iterable[Setting]],
    settings: Mapping[str, Setting] | None = None,
    *,
    seeds: int | None = None,
    threads: int | None = None,
    summarize: bool = False,
) -> pd.DataFrame:
    """Runs all combinations of varied settings, each with `seeds` seeds (default: the scenario's).

    The frame has a row for each run or, with `summarize=True`, the means of each combination, with
    95 % intervals of the mean and the tail. Columns of varied settings have the values as given.
    """
    if seeds is not None:
        _check_count("seeds", seeds)
    _check_threads(threads)
    if not isinstance(vary, Mapping):
        raise TypeError("vary is a mapping of settings to lists of values, such as {'shuttles.count': [8, 12]}")
    given: dict[str, dict[str, Setting]] = {}
    for name, values in vary.items():
        if isinstance(values, (str, int, float)) or not isinstance(values, Iterable):
            raise ValueError(f"the values of {name} are a list")
        given[name] = {_text(value).strip(): value for value in values}
        if not given[name] or any("," in text or ".." in text for text in given[name]):
            raise ValueError(f"the values of {name} are a list of single values")
    varied = [f"{name}={','.join(values)}" for name, values in given.items()]
    table, missed = _native.sweep(os.fspath(path), _assignments(settings), varied, seeds, threads, summarize)
    pd = needed("pandas", "twin")
    frame = _frame(table, missed)
    for name, values in given.items():
        if name in frame.columns:
            frame[name] = pd.Series([values.get(text, text) for text in table[name][0]], index=frame.index)
    return frame


def _check_count(name: str, count: int) -> None:
    if not 1 <= count <= _COUNT_MAX:
        raise ValueError(f"{name} is from 1 to {_COUNT_MAX}")


def _check_seed(seed: int | None) -> None:
    if seed is not None and not 0 <= seed <= _SEED_MAX:
        raise ValueError(f"seed is from 0 to {_SEED_MAX}")


def _check_threads(threads: int | None) -> None:
    if threads is not None:
        _check_count("threads", threads)


def _text(value: Setting) -> str:
    plain = value if isinstance(value, (str, int, float)) or not hasattr(value, "item") else value.item()
    if isinstance(plain, bool):
        return "true" if plain else "false"
    # Numbers of NumPy as NumPy shows them: of float32, `item` returns more digits.
    return str(value)


def _assignments(settings: Mapping[str, Setting] | None) -> list[str]:
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError("settings are a mapping of names to values, such as {'shuttles.count': 8}")
    return [f"{name}={_text(value)}" for name, value in (settings or {}).items()]


#: By kind of a column, the type in a frame. Each can hold missing values.
_TYPES = {"number": "float64", "whole number": "Int64", "text": "string", "yes or no": "boolean"}


def _frame(table: dict[str, _native._Column], missed: list[tuple[int, str]]) -> pd.DataFrame:
    pd = needed("pandas", "twin")
    columns = {name: pd.array(values, _TYPES[kind]) for name, (values, kind, _, _) in table.items()}
    frame = pd.DataFrame(columns)
    frame.attrs = _attrs(table)
    frame.attrs["missed"] = [{"seed": seed, "what": what} for seed, what in missed]
    if missed:
        warnings.warn(f"seed {missed[0][0]}: {missed[0][1]} ({len(missed)} in all)", UnmetWarning, stacklevel=3)
    return frame


def _attrs(table: dict[str, _native._Column]) -> dict[str, Any]:
    return {
        "units": {name: unit for name, (_, _, unit, _) in table.items()},
        "meanings": {name: meaning for name, (_, _, _, meaning) in table.items()},
    }


__all__ = [
    "Collect",
    "Fetch",
    "IdleShuttle",
    "Policy",
    "ReadDrive",
    "Scenario",
    "UnmetWarning",
    "View",
    "WaitingPlatter",
    "run",
    "scenario",
    "sweep",
    "timeline",
]
