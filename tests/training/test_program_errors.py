"""What attempts that the environment's program ended are worth in training: 0, or masked; many pause a job."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from synthesis.contracts import Reference, ReferenceCall  # noqa: E402
from synthesis.rollout import Plan, ReferencePolicy  # noqa: E402
from synthesis.runtime import get_default_sandbox  # noqa: E402
from tests.rollout.support import REFERENCE, SOURCE, gather, task  # noqa: E402
from tests.training import small  # noqa: E402
from tests.training.test_rl import CFG, closed, job, records  # noqa: E402
from training import rl  # noqa: E402
from training.attempts import TaskAttempt  # noqa: E402
from training.config import Limits, Masking  # noqa: E402
from training.dataset import TaskRow  # noqa: E402
from training.evaluate import build_result  # noqa: E402
from training.job import Exit  # noqa: E402
from training.launch import _classify_error  # noqa: E402
from training.policy import Trace  # noqa: E402
from training.rewards import score_attempt  # noqa: E402
from training.step import TooManyProgramErrors, _require_programs  # noqa: E402
from training.step_record import Judged, compute_step_values  # noqa: E402

WRONG = Reference(calls=(ReferenceCall(tool="open_box", arguments={"box_id": "B-2"}),))
OPENS = '        self.boxes[box_id]["open"] = True\n'
EXITS = SOURCE.replace(OPENS, f'        if box_id == "B-2":\n            import os\n            os._exit(0)\n{OPENS}')


def judged(source: str, masking: Masking) -> list[Judged]:
    """16 seeded attempts, of which 9 do the right thing."""
    right = set(random.Random(11).sample(range(16), 9))
    shelf = task(program=task().program.model_copy(update={"source": source}))
    row: TaskRow = small.rows()[0].model_copy(update={"environment": "shelf", "rollout": shelf})
    plans = [Plan(shelf, ReferencePolicy(REFERENCE if n in right else WRONG), ordinal=n) for n in range(16)]
    made = gather(get_default_sandbox(), plans)
    return [(TaskAttempt(row, a.ordinal, a, Trace()), score_attempt(a, "score", masking)) for a in made]


@pytest.mark.parametrize("source", [SOURCE, EXITS], ids=["honest", "exits where it would fail"])
def test_nine_of_sixteen_stay_nine_of_sixteen(source: str) -> None:
    made = judged(source, Masking())
    values = compute_step_values(made, 1.0)
    assert values["success"] == values["reward"] == values["environment/shelf/success"] == 9 / 16
    assert build_result(made).success == 9 / 16
    assert build_result(made).counted == 16
    assert build_result(made).values()["evaluation/tasks"] == 1
    ended = 7 / 16 if source == EXITS else 0.0
    assert values["program_errors"] == values["environment/shelf/program_errors"] == ended
    assert values.get("outcome/program_error", 0.0) == ended
    assert values["masked"] == 0.0


def test_they_are_masked_by_choice() -> None:
    made = judged(EXITS, Masking(program_errors=True))
    assert [score.masked for _, score in made].count("program_error") == 7
    values = compute_step_values(made, 1.0)
    assert (values["success"], values["masked"], values["program_errors"]) == (1.0, 7 / 16, 7 / 16)


def test_a_share_of_them_is_too_many_and_names_environment_and_tool() -> None:
    made = judged(EXITS, Masking())
    _require_programs(made, 7 / 16)
    with pytest.raises(TooManyProgramErrors, match=r"7 of 16 .* shelf: 7, .*open_box\(box_id='B-2'\)") as caught:
        _require_programs(made, 0.4)
    assert _classify_error(caught.value) == (Exit.PROGRAM_ERRORS, str(caught.value))
    few: Sequence[Judged] = [one for one in made if one[0].attempt.outcome == "program_error"][:3]
    _require_programs(few, 0.2)


def breaking(rows: Sequence[TaskRow], environment: str) -> list[TaskRow]:
    """The rows, of which those of one environment have a program that exits as soon as it is built."""
    out = []
    for row in rows:
        if row.environment == environment:
            source = f"{row.rollout.program.source}\nimport os\nos._exit(3)\n"
            program = row.rollout.program.model_copy(update={"source": source})
            row = row.model_copy(update={"rollout": row.rollout.model_copy(update={"program": program})})
        out.append(row)
    return out


def test_a_job_whose_programs_end_too_many_attempts_pauses(tmp_path) -> None:
    one = job(tmp_path / "job")
    one.held_out, one.rows = (), breaking(one.rows, "lamps")
    with pytest.raises(TooManyProgramErrors, match=r"4 of 16 attempts .* lamps: 4"):
        rl.train_reinforcement(one)
    closed(one)


def test_a_job_that_allows_them_goes_on_and_says_so(tmp_path) -> None:
    one = job(tmp_path / "job", CFG.model_copy(update={"steps": 1, "limits": Limits(program_error_share=0.3)}))
    one.held_out, one.rows = (), breaking(one.rows, "lamps")
    ended, _ = rl.train_reinforcement(one)
    closed(one)
    assert ended == "done"
    told = [record for record in records(one.folder) if record.kind == "event" and "program_errors" in record.data]
    assert [(event.level, event.data) for event in told] == [("warn", {"program_errors": 4})]
    assert "counted as 0: lamps: 4" in told[0].message
