"""Runs of the twin as data frames, and policies in Python."""

import json
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pandas
import pytest
from conftest import run

from fulgurite import twin

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
#: Less than an hour, which takes a moment.
SHORT = {"run.warm_up": "10 min", "run.measured": "30 min", "run.seeds": 1}


@pytest.fixture(scope="module", autouse=True)
def iops(tmp_path_factory):
    """The interval with the most reads, without expectations."""
    global IOPS
    IOPS = tmp_path_factory.mktemp("scenario") / "iops.toml"
    IOPS.write_text('title = "The most reads"\n[workload]\npreset = "iops"\n')


def test_a_run_has_the_figures_of_the_program():
    settings = [option for name, value in SHORT.items() for option in ("--set", f"{name}={value}")]
    printed = json.loads(run("--json", "twin", "run", IOPS, *settings, "--seeds", 2, status=None))
    with_warnings = twin.run(IOPS, SHORT, seeds=2)
    assert list(with_warnings["seed"]) == [line["seed"] for line in printed["runs"]]
    for row, line in zip(with_warnings.to_dict("records"), printed["runs"]):
        figures = {name: None if pandas.isna(row[name]) else row[name] for name in line["figures"]}
        assert figures == pytest.approx(line["figures"], nan_ok=True)
    assert with_warnings.attrs["units"]["tail_s"] == "s" and "99.9th" in with_warnings.attrs["meanings"]["tail_s"]
    assert with_warnings["requests"].dtype == "Int64" and with_warnings["tail_s"].dtype == "float64"


def test_a_scenario_is_read():
    scenario = twin.scenario(IOPS, {"shuttles.count": 8})
    assert scenario.name == "iops" and scenario.title and "count = 8" in scenario.settings
    for settings, what in [({"shuttles.coutn": 8}, "coutn"), ({"shuttles.count": "many"}, "many"), ({"shuttles.count": -1}, "-1")]:
        with pytest.raises(ValueError, match=what):
            twin.scenario(IOPS, settings)
    with pytest.raises(ValueError, match="absent.toml"):
        twin.run("absent.toml")


def test_a_sweep_has_all_combinations():
    vary = {"shuttles.count": [8, 20], "policy.name": ["partitioned", "balanced"]}
    runs = twin.sweep(IOPS, vary, SHORT, seeds=2)
    assert len(runs) == 8
    assert list(runs["shuttles.count"]) == [8] * 4 + [20] * 4 and runs["shuttles.count"].dtype == "int64"
    summary = twin.sweep(IOPS, vary, SHORT, seeds=2, threads=1, summarize=True)
    assert len(summary) == 4 and list(summary["seeds"]) == [2] * 4
    means = runs.groupby(["shuttles.count", "policy.name"], sort=False)["tail_s"].mean()
    assert list(summary["tail_s"]) == pytest.approx(list(means))
    assert means[8, "partitioned"] > means[20, "partitioned"]
    for wrong in [{"shuttles.count": []}, {"shuttles.count": "8,12"}, {"shuttles.coutn": [8]}, {"shuttles.count": [-1]}]:
        with pytest.raises(ValueError):
            twin.sweep(IOPS, wrong, SHORT)
    assert len(twin.sweep(IOPS, {}, SHORT)) == 1
    assert list(twin.sweep(IOPS, {"shuttles.count": (count for count in [" 8", "20"])}, SHORT)["shuttles.count"]) == [" 8", "20"]
    for wrong in [["8,9"], ["8..20:4"]]:
        with pytest.raises(ValueError, match="single values"):
            twin.sweep(IOPS, {"shuttles.count": wrong}, SHORT)
    with pytest.raises(ValueError, match="seeds"):
        twin.sweep(IOPS, vary, SHORT, seeds=0)


def test_values_of_numpy_are_settings():
    vary = {"battery.used": np.array([True, False]), "shuttles.count": np.array([8, 20])}
    runs = twin.sweep(IOPS, vary, SHORT)
    assert list(runs["battery.used"]) == [True, True, False, False] and list(runs["shuttles.count"]) == [8, 20] * 2
    assert "used = true" in twin.scenario(IOPS, {"battery.used": np.True_}).settings
    assert "count = 8" in twin.scenario(IOPS, {"shuttles.count": np.int64(8)}).settings
    settings = twin.scenario(IOPS, {"shuttles.speed": "2.1 m/s"}).settings
    assert twin.scenario(IOPS, {"shuttles.speed": np.str_("2.1 m/s")}).settings == settings


def test_wrong_arguments_say_so():
    wrong = [{"seed": -1}, {"seed": 2**64}, {"seeds": 0}, {"seeds": 2**40}, {"threads": 0}, {"threads": 2**70}]
    for options in wrong:
        with pytest.raises(ValueError, match=f"{min(options)} is from "):
            twin.run(IOPS, SHORT, **options)
    for options in [{"seeds": 2**40}, {"threads": 2**70}]:
        with pytest.raises(ValueError, match="is from 1 to"):
            twin.sweep(IOPS, {}, SHORT, **options)
    with pytest.raises(ValueError, match="seed is from 0"):
        twin.timeline(IOPS, SHORT, seed=-1)
    uses = [lambda: twin.sweep(IOPS, ["shuttles.count"]), lambda: twin.scenario(IOPS, ["x=3"]), lambda: twin.run(IOPS, "x=3"), lambda: twin.sweep(IOPS, {}, ["x=3"])]
    for use in uses:
        with pytest.raises(TypeError, match="mapping"):
            use()
    with pytest.raises(ValueError, match="are a list"):
        twin.sweep(IOPS, {"shuttles.count": np.int64(8)}, SHORT)
    for use in [lambda: twin.Fetch(70_000, 1, 1), lambda: twin.Fetch(1, 2**32, 1), lambda: twin.Fetch(1, 1, -1), lambda: twin.Collect(0, 2**70)]:
        with pytest.raises(ValueError, match="out of range"):
            use()
    for use in [lambda: twin.Fetch("1", 1, 1), lambda: twin.Collect(1, 1.5)]:
        with pytest.raises(TypeError):
            use()


@pytest.mark.parametrize("place", [(300, 1.0), (-1, 1.0), (0, float("nan")), (0, float("inf")), (0, 1e300)])
def test_a_place_that_can_not_be_says_so(place):
    for use in [lambda view: view.travel_s(place, (0, 1.0)), lambda view: view.travel_s((0, 1.0), place)]:
        with pytest.raises(ValueError, match="out of range"):
            twin.run(IOPS, SHORT, policy=lambda: Broken(use))


def test_a_timeline_covers_the_run():
    course = twin.timeline(IOPS, SHORT)
    assert len(course) > 10 and course.attrs["units"]
    first = course.columns[0]
    assert course[first].is_monotonic_increasing


def test_missed_expectations_are_told():
    with pytest.warns(twin.UnmetWarning, match="99.9th percentile"):
        frame = twin.run(IOPS, {**SHORT, "expect.tail": "1 s"})
    assert [(line["seed"], "99.9th" in line["what"]) for line in frame.attrs["missed"]] == [(frame["seed"][0], True)]
    assert twin.run(SCENARIOS / "typical.toml", SHORT).attrs["missed"] == []


class NearestFirst:
    """Each idle shuttle takes what is nearest: released platters before waiting ones."""

    def assign(self, view):
        released = [(view.travel_s(shuttle.at, drive.at), shuttle.number, drive.number) for shuttle in view.shuttles for drive in view.drives if drive.released_bay is not None]
        if released:
            _, shuttle, drive = min(released)
            return twin.Collect(shuttle, drive)
        free = [drive for drive in view.drives if drive.is_free and drive.can_take]
        if not free or not view.waiting or not view.shuttles:
            return None
        oldest = max(view.waiting, key=lambda platter: (platter.age_s, -platter.number))
        shuttle = min(view.shuttles, key=lambda shuttle: (view.travel_s(shuttle.at, oldest.at), shuttle.number))
        drive = min(free, key=lambda drive: (view.travel_s(oldest.at, drive.at), drive.number))
        return twin.Fetch(shuttle.number, oldest.number, drive.number)


def test_a_policy_in_python_serves_every_request():
    short = {**SHORT, "workload.preset": "typical", "run.measured": "15 min"}
    frame = twin.run(IOPS, short, seeds=2, policy=NearestFirst)
    pandas.testing.assert_frame_equal(frame, twin.run(IOPS, short, seeds=2, policy=NearestFirst))
    of_scenario = twin.run(IOPS, short, seeds=2)
    assert list(frame["requests"]) == list(of_scenario["requests"])
    assert list(frame["censored"]) == [0, 0] and list(frame["read"]) == list(of_scenario["read"])
    assert (frame["tail_s"] >= frame["bound_tail_s"]).all()


class Broken:
    def __init__(self, answer):
        self.answer = answer

    def assign(self, view):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(view)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (RuntimeError("of the policy"), "of the policy"),
        (lambda view: "fetch", "Fetch, a Collect or None"),
        (lambda view: twin.Fetch(9_999, 0, 0), "shuttle 9999 isn't idle"),
        (lambda view: twin.Fetch(view.shuttles[0].number, 4_000_000_000, 0), "platter 4000000000"),
        (lambda view: twin.Fetch(view.shuttles[0].number, view.waiting[0].number, 60_000), "no drive 60000"),
        (lambda view: twin.Collect(view.shuttles[0].number, 0), "no released platter|isn't idle"),
        (lambda view: twin.Fetch(view.shuttles[0].number, -1, 0), "can't convert|out of range|negative"),
    ],
)
def test_a_broken_policy_ends_its_run(answer, error, capfd):
    with pytest.raises(Exception, match=error):
        twin.run(IOPS, SHORT, policy=lambda: Broken(answer))
    # As an exception, and without the message of a panic.
    assert capfd.readouterr().err == ""


def test_a_policy_that_can_not_be_made_says_so():
    with pytest.raises(ZeroDivisionError):
        twin.run(IOPS, SHORT, policy=lambda: 1 / 0)


def test_a_long_run_can_be_interrupted():
    threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        twin.run(SCENARIOS / "hundred-libraries.toml")
    assert time.monotonic() - begun < 30


def test_a_long_sweep_can_be_interrupted():
    timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        twin.sweep(IOPS, {"shuttles.count": list(range(8, 41))}, seeds=200)
    assert time.monotonic() - begun < 60
