"""Lengths of a dataset's rows in tokens, as far as they are known without a tokenizer, beside a job's limit.

Most lengths are an estimate by characters, which is warned of. A bound from below holds for every tokenizer that joins
no two words: a job with rows above it is sure to fail, and refused.
"""

from __future__ import annotations

import re
from itertools import islice

from synthesis.contracts import Frozen
from training.config import EvaluationJob, JobConfig, Reinforcement, Supervised
from training.examples.words import count_pieces
from webapp.datasets.models import Dataset, StoredFile
from webapp.datasets.row_facts import Facts, iter_learnt_texts, load_file_facts
from webapp.runs.preflight.job_lookup import ResolvedJob
from webapp.runs.spec import DEMO_MODEL

CHARACTERS_A_TOKEN = 4
"""A rule of thumb for English and JSON; a tokenizer alone knows."""


_PIECE = re.compile(r"[^A-Za-z0-9\r\n]?[A-Za-z\u0080-\U0010ffff]+|[0-9]+|[!-/:-@\[-`{-~]+")
"""Words with the character before them, numbers, runs of punctuation: no tokenizer that splits texts before it joins
bytes (those of GPT, Llama, Qwen, Mistral and DeepSeek) makes one token of two of them."""
_REASONED = "</think>"
"""The text before it may be left out of a sample."""


class Tokens(Frozen):
    """Lengths in tokens, estimated from characters. `most` is the longest row's, `limit` the job's, `long` counts the
    rows that are longer, and `certain` those of them that are longer whatever the tokenizer."""

    mean: int
    most: int
    long: int
    limit: int
    field: str
    note: str
    certain: int = 0


def check_row_lengths(asked: ResolvedJob, facts: Facts | None) -> Tokens | None:
    """Return what is known of the lengths of the rows to learn from. Warn of rows that are too long; refuse the job if
    that is certain and lets it fail."""
    config = asked.config
    if config is None:
        return None
    is_supervised = isinstance(config, Supervised)
    name = "max_length" if isinstance(config, Supervised) else "decoding.trajectory_tokens"
    limit = config.max_length if isinstance(config, Supervised) else config.decoding.trajectory_tokens
    if facts is None:
        tokens = _estimate_frozen(asked, name, limit)
        if tokens is None and asked.file is not None:
            message = (
                f"The file is too large to look through now: whether rows are longer than {name} ({limit}) is unknown."
            )
            asked.warn(f"changes.{name}", "not_looked_at", message)
    elif asked.base == DEMO_MODEL:
        tokens = _measure_for_demo(asked, facts, name, limit)
    else:
        measured_part = "a whole trajectory" if is_supervised else "what an agent reads before its first turn"
        tokens = _estimate_from_characters([row.characters for row in facts.rows], name, limit, measured_part)
        if tokens is not None and max(row.characters for row in facts.rows) > limit:
            certain = _count_certain(_bound_lengths(asked.base, asked.dataset, asked.file, limit), facts, limit)
            tokens = tokens.model_copy(update={"certain": certain, "long": max(certain, tokens.long)})
    if (
        tokens is not None
        and not _refuse_if_certain(asked, config, tokens, len(facts.rows) if facts else 0)
        and (tokens.most > limit or tokens.long)
    ):
        _warn_of_long_rows(asked, config, tokens)
    return tokens


def _refuse_if_certain(asked: ResolvedJob, config: JobConfig, tokens: Tokens, rows: int) -> bool:
    """Refuse a job that is sure to fail because of too long rows; return whether it was refused."""
    drops = isinstance(config, Supervised) and config.too_long == "drop"
    if isinstance(config, EvaluationJob) or not tokens.certain or (drops and tokens.certain < rows):
        return False
    many = tokens.certain > 1
    message = (
        f"{tokens.certain:,} of {rows:,} rows {'have' if many else 'has'} more than {tokens.limit:,} tokens "
        f"({tokens.field}) by any tokenizer"
    )
    if drops:
        message += f", so that nothing is left to learn from: raise changes.{tokens.field}."
    else:
        drop = ", take too_long = drop" if isinstance(config, Supervised) else ""
        message += f": the job would fail before its first step. Raise changes.{tokens.field}{drop}, or leave "
        message += f"{'them' if many else 'it'} out."
    asked.refuse(f"changes.{tokens.field}", "too_long", message)
    return True


def warn_of_long_evaluation(asked: ResolvedJob) -> None:
    """Warn of tasks of an uploaded evaluation that leave the agent no room: an RL job fails on them at its start."""
    if not isinstance(asked.config, Reinforcement) or asked.evaluation_file is None:
        return
    limit = asked.config.decoding.trajectory_tokens
    if asked.base == DEMO_MODEL:
        lengths = _bound_lengths(DEMO_MODEL, None, asked.evaluation_file, limit)
    else:
        facts = load_file_facts(asked.evaluation_file)
        lengths = [_characters_to_tokens(row.characters) for row in facts.rows] if facts else []
    if max(lengths, default=0) > limit:
        long = sum(length > limit for length in lengths)
        message = (
            f"{long} of its tasks {'have' if long > 1 else 'has'} more than {limit} tokens before the agent's first "
            "turn, estimated from characters. A job that meets one fails before its first step: raise "
            "changes.decoding.trajectory_tokens, or leave such tasks out."
        )
        asked.warn("validation_file", "too_long", message)


def _warn_of_long_rows(asked: ResolvedJob, config: JobConfig, tokens: Tokens) -> None:
    about = "at least" if asked.base == DEMO_MODEL else "about"
    message = f"The longest row has {about} {tokens.most} tokens, and {tokens.field} is {tokens.limit}"
    if tokens.long:
        message += f", which {tokens.long} row{'s are' if tokens.long != 1 else ' is'} longer than"
    if isinstance(config, Supervised) and config.too_long == "drop":
        message += ". What is longer is left out."
    else:
        drop = ", take too_long = drop" if isinstance(config, Supervised) else ""
        message += f". A job that meets a longer row fails before its first step: raise changes.{tokens.field}{drop}, "
        message += "or leave the row out."
    asked.warn(f"changes.{tokens.field}", "too_long", message)


def _estimate_frozen(asked: ResolvedJob, name: str, limit: int) -> Tokens | None:
    """Estimate lengths from the counts made when the dataset was frozen."""
    frozen_counts = asked.dataset.tokens if asked.dataset is not None else {}
    if asked.base == DEMO_MODEL or not frozen_counts.get("most"):
        return None
    tokens = _estimate_from_characters([int(frozen_counts["most"])], name, limit, "a row")
    mean = round(float(frozen_counts.get("mean") or 0) / CHARACTERS_A_TOKEN)
    return tokens.model_copy(update={"mean": mean, "long": 0}) if tokens else None


def _estimate_from_characters(characters: list[int], name: str, limit: int, told: str) -> Tokens | None:
    if not characters:
        return None
    lengths = [_characters_to_tokens(count) for count in characters]
    return Tokens(
        mean=round(sum(characters) / len(characters) / CHARACTERS_A_TOKEN),
        most=max(lengths),
        long=sum(length > limit for length in lengths),
        limit=limit,
        field=name,
        note=f"of {told}, at {CHARACTERS_A_TOKEN} characters a token: a rule of thumb, the tokenizer alone knows",
    )


def _characters_to_tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_A_TOKEN)


def _bound_lengths(base: str, dataset: Dataset | None, file: StoredFile | None, limit: int) -> list[int]:
    """Return bounds from below by row, counted no further than twice the limit. The tiny model's tokenizer is made of
    the data, and whole manuals are one token to it."""
    lengths = []
    for texts in iter_learnt_texts(dataset, file):
        left = most = 2 * limit
        for text in texts:
            left -= count_pieces(text, left) if base == DEMO_MODEL else _count_least_pieces(text, left)
        lengths.append(most - left)
    return lengths


def _count_least_pieces(text: str, most: int) -> int:
    return sum(1 for _ in islice(_PIECE.finditer(text.rpartition(_REASONED)[2]), most))


def _count_certain(lengths: list[int], facts: Facts, limit: int) -> int:
    """Count the rows that are longer for certain; rows without a turn of the agent are not learnt, so they do not
    count."""
    return sum(length > limit and row.turns > 0 for length, row in zip(lengths, facts.rows, strict=False))


def _measure_for_demo(asked: ResolvedJob, facts: Facts, name: str, limit: int) -> Tokens | None:
    lengths = _bound_lengths(DEMO_MODEL, asked.dataset, asked.file, limit)
    if not lengths:
        return None
    return Tokens(
        mean=round(sum(lengths) / len(lengths)),
        most=max(lengths),
        long=sum(length > limit for length in lengths),
        certain=_count_certain(lengths, facts, limit),
        limit=limit,
        field=name,
        note="of a row at least, without what every agent reads: the tiny model's tokenizer is made of the data",
    )
