"""Results of `fulgurite bench` and `fulgurite audit` as data frames. Needs pandas.

>>> from fulgurite import results
>>> rounds = results.bench("bench.json")
>>> rounds.pivot_table("p99_ms", "operation", "target")
>>> events = results.audit_events("audit.db")
>>> events[events["kind"] == "digest-mismatch"]
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._errors import FulguriteError
from ._objects import needed

if TYPE_CHECKING:
    import pandas as pd


def bench(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The rounds of a load test: a row for each target, round and operation.

    `path` is what `fulgurite --json bench` printed, or the file of `--csv`. Columns: `target`,
    `round` (from 1), `operation`, `seconds`, `done`, `failed`, `rate` (1/s), `mb_s`, `mean_ms` and
    percentiles (`p50_ms` to `p999_ms`, `max_ms`), `bytes`, `errors`, `server_cpu` and `own_cpu`
    (cores), `server_memory` (bytes).
    """
    pd = needed("pandas", "this function")

    text = Path(path).read_text()
    if text.startswith("target,"):
        _check_csv(text, path)
        missing = dict.fromkeys(_MAYBE_MISSING, "")
        return _sorted(pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=missing))
    rows = []
    for name, number, one in _rounds(text, path):
        for operation, figures in one["operations"].items():
            errors = "; ".join(f"{error}: {count}" for error, count in figures["errors"].items())
            of_round = {key: one[key] for key in ("server_cpu", "server_memory", "own_cpu")}
            row = {"target": name, "round": number, "operation": operation, "seconds": one["seconds"]}
            rows.append(row | figures | {"errors": errors} | of_round)
    return _sorted(pd.DataFrame(rows, columns=_COLUMNS))


_COLUMNS = (
    "target round operation seconds done failed rate mb_s mean_ms p50_ms p90_ms p99_ms p999_ms max_ms"
    " bytes errors server_cpu server_memory own_cpu"
).split()
# Times are missing where nothing succeeded, and the server's figures where it can't be observed.
_TIMES = "mean_ms p50_ms p90_ms p99_ms p999_ms max_ms".split()
_MAYBE_MISSING = [*_TIMES, "server_cpu", "server_memory"]


def _check_csv(text: str, path: str | os.PathLike[str]) -> None:
    rows = list(csv.reader(io.StringIO(text)))
    if not set(_COLUMNS) <= set(rows[0]):
        raise ValueError(f"{os.fspath(path)}: not the CSV of `fulgurite bench`, or cut off: columns are missing")
    if not text.endswith("\n") or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(f"{os.fspath(path)}: a row is incomplete; was the file cut off?")


def _sorted(rounds: pd.DataFrame) -> pd.DataFrame:
    return rounds.astype(dict.fromkeys(_MAYBE_MISSING, "float64")).sort_values(["target", "round", "operation"], ignore_index=True)


def bench_windows(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A load test over time: a row for each target, round and window.

    `path` is what `fulgurite --json bench` printed. Columns: `target`, `round`, `at_s` (start of the
    window), `seconds` (its length), `done`, `failed`, `bytes`, `p50_ms`, `p99_ms`, `server_memory`.
    """
    pd = needed("pandas", "this function")

    rows = [
        {"target": name, "round": number} | window
        for name, number, one in _rounds(Path(path).read_text(), path)
        for window in one["windows"]
    ]
    columns = "target round at_s seconds done failed bytes p50_ms p99_ms server_memory".split()
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(["p50_ms", "p99_ms", "server_memory"], "float64"))


def _rounds(text: str, path: str | os.PathLike[str]) -> list[tuple[str, int, dict[str, Any]]]:
    try:
        targets = json.loads(text)["targets"]
        rounds = [(one["name"], number, shown) for one in targets for number, shown in enumerate(one["rounds"], 1)]
        if not all({"operations", "windows", "seconds"} <= shown.keys() for _, _, shown in rounds):
            raise KeyError
        return rounds
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{os.fspath(path)}: not the JSON of `fulgurite --json bench`") from None


def audit_events(
    database: str | os.PathLike[str] = "audit.db", *, after: int = 0, program: str = "fulgurite"
) -> pd.DataFrame:
    """The history of an audit: a row for each event after the one with number `after`.

    `database` is a file or `postgres://…`; `program` reads it. Columns: `event`, `time` (UTC),
    `node`, `name`, `kind`, `method`, `bytes`, `stream_us`, `detail`, as `fulgurite audit export`
    writes them (docs/audit.md).
    """
    pd = needed("pandas", "this function")

    printed = _audit(program, database, (0,), "export", "--format", "json", "--after", str(after))
    events = pd.DataFrame([json.loads(line) for line in printed.split("\n") if line], columns=_EVENT)
    events["at"] = pd.to_datetime(events["at"].astype("int64"), unit="s", utc=True).astype("datetime64[s, UTC]")
    types = {"event": "int64", "bytes": "Int64", "stream_us": "Int64"}
    texts = {name: "string" for name in ("node", "name", "kind", "method", "detail")}
    return events.rename(columns={"at": "time"}).astype(types | texts)


_EVENT = ["event", "at", "node", "name", "kind", "method", "bytes", "stream_us", "detail"]


def audit_nodes(database: str | os.PathLike[str] = "audit.db", *, program: str = "fulgurite") -> pd.DataFrame:
    """The report of an audit: a row for each node, with its copies by state, its speed and its cycle.

    The columns are those of `fulgurite audit report --csv`.
    """
    pd = needed("pandas", "this function")

    # The status tells what is known of the copies, and so does the table.
    printed = _audit(program, database, (0, 1, 3, 4), "report", "--csv")
    texts: dict[Hashable, str] = {"node": "str", "method": "str", "oldest_verified_day": "str"}
    return pd.read_csv(io.StringIO(printed), dtype=texts, keep_default_na=False, na_values=[""])


def _audit(program: str, database: str | os.PathLike[str], good: tuple[int, ...], *arguments: str) -> str:
    command = [program, "audit", "--database", os.fspath(database), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise FulguriteError(f"{program} isn't on the path: give program='/path/to/fulgurite'") from None
    if done.returncode not in good or not done.stdout and done.returncode != 0:
        raise FulguriteError(done.stderr.strip() or f"{program} ended with status {done.returncode}")
    return done.stdout
