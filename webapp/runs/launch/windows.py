"""Windows of models: what a job may not ask of a sequence, where its model's window is known before it is loaded."""

from __future__ import annotations

from training.config import Decoding, EvaluationJob, Reinforcement, Supervised
from training.examples.words import WINDOW
from webapp.runs.launch.job_lookup import ResolvedJob
from webapp.runs.spec import DEMO_MODEL


def window_of(base: str) -> int | None:
    """Tokens that a model can read at once; None where its own configuration alone knows."""
    return WINDOW if base == DEMO_MODEL else None


def look_at_lengths(asked: ResolvedJob) -> None:
    """Problems of lengths that no attempt or sequence can have: a job with them fails once its model is loaded."""
    window = window_of(asked.base)
    if isinstance(asked.config, Supervised):
        _within(asked, "max_length", asked.config.max_length, window)
    elif isinstance(asked.config, Reinforcement | EvaluationJob):
        decoding: Decoding = asked.config.decoding
        _within(asked, "decoding.trajectory_tokens", decoding.trajectory_tokens, window)
        if decoding.turn_tokens > decoding.trajectory_tokens:
            message = (
                f"A turn may have {decoding.turn_tokens:,} tokens and a whole attempt {decoding.trajectory_tokens:,} "
                "(changes.decoding.trajectory_tokens): lower this, or raise that."
            )
            asked.refuse("changes.decoding.turn_tokens", "above_attempt", message)


def _within(asked: ResolvedJob, name: str, tokens: int, window: int | None) -> None:
    if window is not None and tokens > window:
        message = (
            f"{tokens:,} tokens are more than the window of {asked.base}, which is {window:,}: lower changes.{name}."
        )
        asked.refuse(f"changes.{name}", "above_window", message)
