"""Windows of models: lengths that a job may not ask for, if its model's window is known before it is loaded.

The demo's is known. For a model that a job here began with or made, it is in the `config.json` among its checkpoints'
files: training changes no window. Of other models the worker alone reads the configuration.
"""

from __future__ import annotations

import functools

from training.config import Decoding, EvaluationJob, Reinforcement, Supervised
from training.examples.words import WINDOW
from webapp.runs.checkpoint_files import read_object
from webapp.runs.models import CheckpointFile, CheckpointState, TrainingJob
from webapp.runs.preflight.job_lookup import ResolvedJob, iterate_model_chain
from webapp.runs.spec import DEMO_MODEL

LARGEST_CONFIG = 1024 * 1024


def find_window(job: TrainingJob) -> int | None:
    """Return the tokens that the first model of a job can read at once; None if only its own configuration has that
    number."""
    for number, ancestor in enumerate(iterate_model_chain(job)):
        window = _find_checkpoint_window(ancestor) if number else None
        if window is not None:
            return window
        if ancestor.model == DEMO_MODEL:
            return WINDOW
    return None


def _find_checkpoint_window(job: TrainingJob) -> int | None:
    """Return the window of the newest of a job's complete models; adapters have no `config.json`."""
    rows = CheckpointFile.objects.filter(checkpoint__job=job, checkpoint__state=CheckpointState.READY)
    file = rows.filter(path="config.json", bytes__lte=LARGEST_CONFIG).exclude(stored="").order_by("-pk").first()
    return _read_window(file.stored, file.sha256) if file is not None else None


@functools.lru_cache(maxsize=256)
def _read_window(stored: str, sha256: str) -> int | None:
    """Return the window that a model's configuration names, as the trainer reads it; uploads of workers are
    untrusted."""
    config = read_object(stored)
    inner = config.get("text_config")
    for part in (config, inner if isinstance(inner, dict) else {}):
        window = part.get("max_position_embeddings")
        if isinstance(window, int) and not isinstance(window, bool) and window > 0:
            return window
    return None


def check_lengths(asked: ResolvedJob) -> None:
    """Refuse lengths that no attempt or sequence can have: a job with them fails once its model is loaded."""
    window = find_window(TrainingJob(model=asked.new.model, after=asked.after))
    if isinstance(asked.config, Supervised):
        _require_within_window(asked, "max_length", asked.config.max_length, window)
    elif isinstance(asked.config, Reinforcement | EvaluationJob):
        decoding: Decoding = asked.config.decoding
        _require_within_window(asked, "decoding.trajectory_tokens", decoding.trajectory_tokens, window)
        if decoding.turn_tokens > decoding.trajectory_tokens:
            message = (
                f"A turn may have {decoding.turn_tokens:,} tokens and a whole attempt {decoding.trajectory_tokens:,} "
                "(changes.decoding.trajectory_tokens): lower this, or raise that."
            )
            asked.refuse("changes.decoding.turn_tokens", "above_attempt", message)


def _require_within_window(asked: ResolvedJob, name: str, tokens: int, window: int | None) -> None:
    if window is not None and tokens > window:
        model = asked.new.model if asked.new.model.startswith("ft:") else asked.base
        message = (
            f"{tokens:,} tokens are more than the window of {model[:100]}, which is {window:,}: lower changes.{name}."
        )
        asked.refuse(f"changes.{name}", "above_window", message)
