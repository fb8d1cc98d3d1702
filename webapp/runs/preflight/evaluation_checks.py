"""Preflight of an evaluation: its tasks, the model that plays the user, and whether its calls are enough."""

from __future__ import annotations

from training.config import EvaluationJob
from training.dataset import SideName
from webapp.datasets.models import DatasetState
from webapp.datasets.row_facts import Facts, load_facts, load_file_facts
from webapp.runs.preflight.job_lookup import ResolvedJob
from webapp.runs.preflight.step_count import count_evaluated_rows
from webapp.runs.preflight.user_tools import check_user_tools
from webapp.runs.spec import ENDPOINT


def check_evaluation(asked: ResolvedJob, config: EvaluationJob) -> None:
    """Record faults and warnings of an evaluation, at its fields."""
    if asked.new.evaluation:
        message = "An evaluation tries the tasks of training_file; leave validation_file out."
        asked.refuse("validation_file", "twice", message)
    if asked.new.engine != "transformers":
        message = "A checkpoint is evaluated by the engine transformers; name one that vLLM serves as an endpoint."
        asked.refuse("engine", "wrong_engine", message)
    _check_side(asked, config)
    _check_user(asked, config)
    check_user_tools(asked, config, _list_side_facts(asked, config))
    _check_calls(asked, config)
    _check_thinking(asked, config)


def _check_side(asked: ResolvedJob, config: EvaluationJob) -> None:
    row = asked.dataset
    if row is None or row.state != DatasetState.READY or config.side == "held_out":
        return
    if row.test_rows:
        message = "Tasks that a model may have learnt from are among these: what it solves of them shows nothing new."
        asked.warn("changes.side", "learnt_tasks", message)


def _list_side_facts(asked: ResolvedJob, config: EvaluationJob) -> list[Facts | None]:
    """Return facts about what is tried; None for a side that is not known now."""
    if asked.file is not None:
        return [load_file_facts(asked.file)]
    row = asked.dataset
    if row is None or row.state != DatasetState.READY:
        return []
    held_out: SideName = "test" if row.test_rows else "train"
    sides: tuple[SideName, ...] = {
        "held_out": (held_out,),
        "learnt": ("train",),
        "all": ("train", "test"),
    }[config.side]  # type: ignore[assignment]
    return [load_facts(row, side) for side in sides]


def _check_user(asked: ResolvedJob, config: EvaluationJob) -> None:
    if asked.user is not None or asked.new.user_model:
        return
    if any(facts is not None and "conversation" in facts.settings() for facts in _list_side_facts(asked, config)):
        message = (
            "The tasks hold conversations, and no model plays the user: name a user_model, or set a default model for "
            "the role user."
        )
        asked.refuse("user_model", "missing", message)


def _check_thinking(asked: ResolvedJob, config: EvaluationJob) -> None:
    """Refuse a setting of thinking that only a model behind an endpoint can have."""
    if config.think != "model" and not asked.new.model.startswith(ENDPOINT):
        message = (
            "Thinking is switched on and off for models behind an endpoint: serve this one (Models > Serve), and "
            "evaluate it there, or leave changes.think at `model`."
        )
        asked.refuse("changes.think", "not_at_an_endpoint", message)


def _check_calls(asked: ResolvedJob, config: EvaluationJob) -> None:
    """Warn if the calls may not be enough: a model behind an address is asked once a turn, and every request counts."""
    row = asked.dataset
    if not asked.new.model.startswith(ENDPOINT) or row is None or row.state != DatasetState.READY:
        return
    most = config.tried(count_evaluated_rows(config, row)) * config.repeats * sum(config.horizons)
    if most > asked.new.calls_allowed:
        message = (
            f"If every attempt takes all its turns, {most:,} requests go to the model, and {asked.new.calls_allowed:,} "
            "are allowed: raise calls_allowed, or the evaluation pauses when they are used up."
        )
        asked.warn("calls_allowed", "few_calls", message)
