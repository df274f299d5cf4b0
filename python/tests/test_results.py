"""Results of load tests and audits as data frames."""

import hashlib
from pathlib import Path

import pandas
import pytest
from conftest import PROGRAM, run

import fulgurite
from fulgurite import results


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """A load test of the file system, as JSON and CSV."""
    folder = tmp_path_factory.mktemp("load")
    (folder / "files").mkdir()
    arguments = ["--files", folder / "files", "--workload", "access=50,ingest=50", "--operations", 400, "--objects", 20, "--rounds", 2]
    (folder / "load.json").write_text(run("--json", "bench", *arguments, "--window", 0.05, "--csv", folder / "load.csv"))
    return folder


def test_rounds_are_rows(load):
    rounds = results.bench(load / "load.json")
    assert list(rounds["round"]) == [1, 1, 2, 2] and set(rounds["operation"]) == {"access", "ingest"}
    assert rounds.groupby("round")["done"].sum().tolist() == [400, 400] and (rounds["failed"] == 0).all()
    assert (rounds["p50_ms"] <= rounds["p99_ms"]).all()
    pandas.testing.assert_frame_equal(rounds, results.bench(load / "load.csv"))


def test_windows_are_rows(load):
    windows = results.bench_windows(str(load / "load.json"))
    assert windows.groupby("round")["done"].sum().tolist() == [400, 400]
    assert all(of_round.is_monotonic_increasing for _, of_round in windows.groupby("round")["at_s"])
    with pytest.raises(ValueError, match="load.csv"):
        results.bench_windows(load / "load.csv")


def test_a_table_that_was_cut_off_says_so(load, tmp_path):
    text = (load / "load.csv").read_text()
    header, row, *_ = text.splitlines(keepends=True)
    cut = tmp_path / "cut.csv"
    for wrong in [header[:40], header[:-10] + "\n", header + row[:20], header + row[:20] + "\n", text[:-1], text[:-3], "target,x\n1,2\n"]:
        cut.write_text(wrong)
        with pytest.raises(ValueError, match="cut.csv: .*cut off"):
            results.bench(cut)
    cut.write_text(header + row)
    assert len(results.bench(cut)) == 1


@pytest.fixture
def audit(tmp_path):
    """An audit of a folder in which a file was damaged."""
    (tmp_path / "disk").mkdir()
    database = tmp_path / "audit.db"
    lines = []
    for name in ["a", "b", "c é,\n"]:
        (tmp_path / "disk" / name).write_text(name)
        if "\n" not in name:
            lines.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (tmp_path / "list").write_text("".join(lines))
    run("audit", "--database", database, "init")
    run("audit", "--database", database, "node", "add", "disk", tmp_path / "disk")
    run("audit", "--database", database, "inventory", "checksums", tmp_path / "list", "--node", "disk")
    (tmp_path / "disk" / "b").write_text("B")
    run("audit", "--database", database, "run", status=1)
    return database


def test_events_are_rows(audit):
    events = results.audit_events(audit, program=PROGRAM)
    kinds = dict(zip(events["name"], events["kind"]))
    assert kinds == {"a": "verified", "b": "digest-mismatch"}
    assert str(events["time"].dt.tz) == "UTC" and (pandas.Timestamp.now("UTC") - events["time"]).max() < pandas.Timedelta("10 min")
    last = int(events["event"].max())
    none = results.audit_events(audit, after=last, program=PROGRAM)
    assert len(none) == 0 and list(none.columns) == list(events.columns) and (none.dtypes == events.dtypes).all()


def test_names_of_nodes_and_files_are_text(tmp_path):
    name = "a\u2028b\u0085c"
    (tmp_path / "list").write_text(f"{hashlib.sha256(b'x').hexdigest()}  {name}\n")
    database = tmp_path / "audit.db"
    run("audit", "--database", database, "init")
    for node in ["NA", "007"]:
        (tmp_path / node).mkdir()
        (tmp_path / node / name).write_text("x")
        run("audit", "--database", database, "node", "add", node, tmp_path / node)
        run("audit", "--database", database, "inventory", "checksums", tmp_path / "list", "--node", node)
    run("audit", "--database", database, "run")
    assert sorted(results.audit_nodes(database, program=PROGRAM)["node"]) == ["007", "NA"]
    events = results.audit_events(database, program=PROGRAM)
    assert set(events["name"]) == {name} and set(events["node"]) == {"007", "NA"}


def test_nodes_are_rows(audit):
    nodes = results.audit_nodes(audit, program=PROGRAM)
    assert list(nodes["node"]) == ["disk"]
    assert (nodes["verified_copies"][0], nodes["digest_mismatch_copies"][0], bool(nodes["well"][0])) == (1, 1, False)


def test_what_can_not_be_read_says_so(tmp_path):
    with pytest.raises(fulgurite.FulguriteError, match="does not exist"):
        results.audit_events(tmp_path / "absent.db", program=PROGRAM)
    with pytest.raises(fulgurite.FulguriteError, match="on the path"):
        results.audit_nodes(tmp_path / "absent.db", program="no-such-program")
    wrong = Path(tmp_path / "wrong.json")
    for text in ['{"error": "x"}', "[]", "", '{"targets": [{"name": "a", "rounds": [{}]}]}']:
        wrong.write_text(text)
        with pytest.raises(ValueError, match="wrong.json"):
            results.bench(wrong)
