"""What a preflight looks at of an evaluation: its tasks, who plays the user, and whether its calls are enough."""

from __future__ import annotations

from training.config import EvaluationJob
from training.dataset import SideName
from webapp.datasets.models import DatasetState
from webapp.datasets.row_facts import Facts, facts_of, facts_of_file
from webapp.runs.launch.job_lookup import ResolvedJob
from webapp.runs.launch.step_count import evaluated_rows
from webapp.runs.launch.user_tools import look_at_user_tools
from webapp.runs.spec import ENDPOINT


def look_at_evaluation(asked: ResolvedJob, config: EvaluationJob) -> None:
    """Faults and warnings of an evaluation, at its fields."""
    if asked.new.evaluation:
        message = "An evaluation tries the tasks of training_file; leave validation_file out."
        asked.refuse("validation_file", "twice", message)
    if asked.new.engine != "transformers":
        message = "A checkpoint is evaluated by the engine transformers; name one that vLLM serves as an endpoint."
        asked.refuse("engine", "wrong_engine", message)
    _look_at_side(asked, config)
    _look_at_user(asked, config)
    look_at_user_tools(asked, config, _sides(asked, config))
    _look_at_calls(asked, config)
    _look_at_thinking(asked, config)


def _look_at_side(asked: ResolvedJob, config: EvaluationJob) -> None:
    row = asked.dataset
    if row is None or row.state != DatasetState.READY or config.side == "held_out":
        return
    if row.test_rows:
        message = "Tasks that a model may have learnt from are among these: what it solves of them shows nothing new."
        asked.warn("changes.side", "learnt_tasks", message)


def _sides(asked: ResolvedJob, config: EvaluationJob) -> list[Facts | None]:
    """Facts about what is tried; None where that is not known now."""
    if asked.file is not None:
        return [facts_of_file(asked.file)]
    row = asked.dataset
    if row is None or row.state != DatasetState.READY:
        return []
    held_out: SideName = "test" if row.test_rows else "train"
    sides: tuple[SideName, ...] = {
        "held_out": (held_out,),
        "learnt": ("train",),
        "all": ("train", "test"),
    }[config.side]  # type: ignore[assignment]
    return [facts_of(row, side) for side in sides]


def _look_at_user(asked: ResolvedJob, config: EvaluationJob) -> None:
    if asked.user is not None or asked.new.user_model:
        return
    if any(facts is not None and "conversation" in facts.settings() for facts in _sides(asked, config)):
        message = (
            "The tasks hold conversations, and nobody plays the user: name a user_model, or set a default model for "
            "the role user."
        )
        asked.refuse("user_model", "missing", message)


def _look_at_thinking(asked: ResolvedJob, config: EvaluationJob) -> None:
    """Refuse what only a model behind an endpoint can be asked."""
    if config.think != "model" and not asked.new.model.startswith(ENDPOINT):
        message = (
            "Thinking is switched on and off for models behind an endpoint: serve this one (Models > Serve), and "
            "evaluate it there, or leave changes.think at `model`."
        )
        asked.refuse("changes.think", "not_at_an_endpoint", message)


def _look_at_calls(asked: ResolvedJob, config: EvaluationJob) -> None:
    """A model behind an address is asked once a turn, and every request counts."""
    row = asked.dataset
    if not asked.new.model.startswith(ENDPOINT) or row is None or row.state != DatasetState.READY:
        return
    most = config.tried(evaluated_rows(config, row)) * config.repeats * sum(config.horizons)
    if most > asked.new.calls_allowed:
        message = (
            f"If every attempt takes all its turns, {most:,} requests go to the model, and {asked.new.calls_allowed:,} "
            "are allowed: raise calls_allowed, or the evaluation pauses when they are used up."
        )
        asked.warn("calls_allowed", "few_calls", message)
