"""The run's record: no number is lost, skipped or read twice, whatever is killed in between; and the account of its
hours, which goes on then."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthesis.errors import FormatError, InfrastructureError
from training import job
from training.metrics import LINE_BYTES, NAMES, Artefact, Event, Position, Record, Values, Writer, read_records


def everything(path: Path, limit: int = 1_000) -> list[Record]:
    records, position = [], Position()
    while True:
        some, position = read_records(path, position, limit)
        if not some:
            return records
        records += some


def test_what_is_written_is_read_in_order_and_once(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    assert read_records(path, Position()) == ([], Position())
    with Writer(path) as writer:
        assert writer.values(1, {"loss": 0.5, "reward": 1}) == 1
        first, position = read_records(path, Position())
        assert read_records(path, position) == ([], position)
        assert writer.event(1, "warn", "The disk is nearly full.", free=3) == 2
        assert writer.artefact(2, "checkpoint", "checkpoint-2", steps=2) == 3
    rest, position = read_records(path, position)
    assert isinstance(first[0], Values)
    assert first[0].values == {"loss": 0.5, "reward": 1}
    assert isinstance(rest[0], Event)
    assert isinstance(rest[1], Artefact)
    assert [record.seq for record in (*first, *rest)] == [1, 2, 3]
    assert position.next_seq == 4
    assert position.offset == path.stat().st_size


def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    for start in (1, 4, 7):
        with Writer(path) as writer:
            assert [writer.values(start, {"loss": 1}) for _ in range(3)] == [start, start + 1, start + 2]
    assert [record.seq for record in everything(path, limit=2)] == list(range(1, 10))


@given(cut=st.integers(1, 120))
@settings(max_examples=30, deadline=None)
def test_a_torn_last_line_is_not_read_and_is_written_anew(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "record.jsonl"
    with Writer(path) as writer:
        for step in range(3):
            writer.values(step, {"loss": 0.1})
    last = len(path.read_bytes().splitlines(keepends=True)[-1])
    cut = min(cut, last)  # any part of the last line, its newline alone included
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size - cut)
    before, position = read_records(path, Position())
    assert [record.seq for record in before] == [1, 2]
    with Writer(path) as writer:
        assert writer.values(9, {"loss": 0.2}) == 3
    after, _ = read_records(path, position)
    assert [(record.seq, record.step) for record in after] == [(3, 9)]


def test_a_killed_writer_loses_nothing_that_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    code = (
        "import sys; from pathlib import Path; from training.metrics import Writer\n"
        "writer = Writer(Path(sys.argv[1]))\n"
        "while True: print(writer.values(0, {'loss': 1.0}), flush=True)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(50):
        told = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)
    told = max([told, *(int(line) for line in child.communicate()[0].split("\n")[:-1])])
    records = everything(path)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert told <= len(records) <= told + 1
    with Writer(path) as writer:
        assert writer.event(1, "info", "Resumed.") == len(records) + 1


def test_what_is_no_number_becomes_a_gap(tmp_path: Path) -> None:
    with Writer(tmp_path / "r") as writer:
        writer.values(1, {"loss": math.nan, "kl": math.inf, "reward": None, "turns": 2})
    (record,) = everything(tmp_path / "r")
    assert isinstance(record, Values)
    assert record.values == {"loss": None, "kl": None, "reward": None, "turns": 2}


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with Writer(tmp_path / "r"), pytest.raises(InfrastructureError, match="another process writes"):
        Writer(tmp_path / "r")
    Writer(tmp_path / "r").close()
    with pytest.raises(InfrastructureError, match="cannot be opened"):
        Writer(tmp_path / "missing" / "r")


def test_a_full_disk_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r"
    with Writer(path) as writer:
        writer.values(1, {"loss": 1})
        real, calls = os.write, []

        def full(file: int, content: bytes) -> int:
            calls.append(1)
            if len(calls) == 1:
                return real(file, content[:5])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(InfrastructureError, match="No space left"):
            writer.values(2, {"loss": 1})
        monkeypatch.undo()
        assert len(path.read_bytes().splitlines()) == 1
        assert writer.values(2, {"loss": 2}) == 2
    assert [record.step for record in everything(path)] == [1, 2]


def test_damage_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with Writer(path) as writer:
        for step in range(3):
            writer.values(step, {"loss": 1})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    with pytest.raises(FormatError, match=f"at byte {len(lines[0])}: has number 3 where 2 should follow"):
        read_records(path, Position())
    path.write_bytes(lines[0] + b"{}\n")
    with pytest.raises(FormatError, match="is no record"):
        read_records(path, Position())
    with pytest.raises(FormatError, match="move the file away"):
        Writer(path)
    with pytest.raises(FormatError, match="it was replaced"):
        read_records(path, Position(offset=10_000, next_seq=4))
    path.write_bytes(b"x" * (3 * LINE_BYTES))
    with pytest.raises(FormatError, match="no line's end"):
        read_records(path, Position())
    with pytest.raises(FormatError, match="no line's end"):
        Writer(path)
    with Writer(tmp_path / "other") as writer, pytest.raises(ValueError, match="too long"):
        writer.event(1, "info", "x" * LINE_BYTES)


def test_a_reader_keeps_up_with_thousands_of_records(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with Writer(path) as writer:
        for step in range(3_000):
            writer.values(step, dict.fromkeys(NAMES, 0.5))
    assert len(everything(path)) == 3_000
    assert time.time() - json.loads(path.read_bytes().split(b"\n")[0])["time"] < 600


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def kept(folder: Path) -> float:
    return float(json.loads((folder / job.SPENT).read_bytes())["seconds"])


def test_a_killed_trainer_goes_on_counting(tmp_path: Path, clock: Clock) -> None:
    first = job.load_wall_time(tmp_path, elsewhere=100.0, first=True)
    assert clock.now - first.started_at == 100
    clock.now += 60
    first.keep()
    clock.now += job.KEEP_EVERY_S - 1
    first.keep()
    assert kept(tmp_path) == 60, "what was written a moment ago is not written again; what elsewhere took is not its"
    clock.now += 1
    first.keep()
    assert kept(tmp_path) == 70
    clock.now += 3_000  # killed; the clock of another boot begins anywhere
    clock.now = 5.0
    again = job.load_wall_time(tmp_path, elsewhere=100.0, first=True)
    clock.now += 30
    again.keep()
    assert (clock.now - again.started_at, kept(tmp_path)) == (200, 100)
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"seconds": "x"}', '{"seconds": -5}', '{"seconds": NaN}'])
def test_an_account_that_cannot_be_read_begins_anew(tmp_path: Path, clock: Clock, content: str) -> None:
    (tmp_path / job.SPENT).write_text(content)
    assert job.load_wall_time(tmp_path, 0.0, first=True).started_at == clock.now


def test_other_ranks_count_and_keep_nothing(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / job.SPENT).write_text('{"seconds": 7}')
    other = job.load_wall_time(tmp_path, 0.0, first=False)
    clock.now += 60
    other.keep()
    assert (clock.now - other.started_at, kept(tmp_path)) == (67, 7)
