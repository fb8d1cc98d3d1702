"""Reports to a tracker: refused where its package is missing, sent as recorded, and never the end of a training."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from synthesis.errors import InputError
from training.config import Supervised, read_config
from training.metrics import Position, Writer, read_records
from training.reports import PROJECT, open_report


class Tracker(ModuleType):
    """What stands in for a tracker's package, which no installation of Envarium brings along."""

    def __init__(self, name: str, fails_at: int = 0) -> None:
        super().__init__(name)
        self.__spec__ = None
        self.begun: dict[str, Any] = {}
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.ended = False
        self.fails_at = fails_at

    def init(self, **how: Any) -> Tracker:
        self.begun = how
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        if self.fails_at and step >= self.fails_at:
            raise ConnectionError("the tracker is away")
        self.logged.append((step, values))

    def finish(self) -> None:
        self.ended = True


def installed(monkeypatch: pytest.MonkeyPatch, name: str, **how: Any) -> Tracker:
    made = Tracker(name, **how)
    monkeypatch.setitem(sys.modules, name, made)
    monkeypatch.setattr("importlib.util.find_spec", lambda asked: object() if asked == name else None)
    return made


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_what_is_recorded_is_sent_as_well(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = installed(monkeypatch, name)
    monkeypatch.setenv(PROJECT, "desks")
    report = open_report(name, tmp_path / "ftjob-1.2", Supervised().model_dump(mode="json"))
    assert report is not None
    with Writer(tmp_path / "record.jsonl") as writer:
        report.follow(writer)
        writer.values(1, {"loss": 0.5, "kl": None})
        writer.event(1, "info", "Nothing for a tracker.")
        writer.values(2, {"loss": float("nan")})
        report.close()
    assert (tracker.begun["project"], tracker.begun["name"]) == ("desks", "ftjob-1.2")
    assert tracker.begun["config"]["batch"] == 32
    assert tracker.logged == [(1, {"loss": 0.5})]
    assert tracker.ended


def test_a_tracker_that_fails_is_told_of_once_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = installed(monkeypatch, "wandb", fails_at=2)
    report = open_report("wandb", tmp_path / "a", {})
    assert report is not None
    with Writer(tmp_path / "record.jsonl") as writer:
        report.follow(writer)
        for step in range(1, 5):
            writer.values(step, {"loss": 0.1})
    assert [step for step, _ in tracker.logged] == [1]
    records, _ = read_records(tmp_path / "record.jsonl", Position())
    warnings = [record for record in records if record.kind == "event"]
    assert len(records) == 5
    assert [(one.step, one.level) for one in warnings] == [(2, "warn")]
    assert "the tracker is away" in str(warnings[0])


def test_a_package_that_is_missing_is_refused_with_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda asked: None)
    with pytest.raises(InputError, match=r"^report_to: W&B is not installed at this worker"):
        open_report("wandb", tmp_path, {})
    assert open_report("none", tmp_path, {}) is None


def test_a_tracker_that_does_not_begin_says_where_its_token_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = installed(monkeypatch, "wandb")
    monkeypatch.setattr(tracker, "init", lambda **_: (_ for _ in ()).throw(RuntimeError("no API key")))
    with pytest.raises(InputError, match=r"no API key.*worker's environment"):
        open_report("wandb", tmp_path, {})


def test_a_job_names_a_tracker_and_nothing_else() -> None:
    assert read_config({"type": "supervised", "report_to": "trackio"}).report_to == "trackio"
    with pytest.raises(InputError, match="report_to"):
        read_config({"type": "supervised", "report_to": "https://elsewhere.example"})
