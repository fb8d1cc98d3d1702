"""Lengths of a dataset's rows in tokens, as far as they are known without a tokenizer, beside what a job allows."""

from __future__ import annotations

from synthesis.contracts import Frozen
from training.config import JobConfig, Reinforcement, Supervised
from training.examples.words import pieces
from webapp.datasets.models import Dataset, StoredFile
from webapp.datasets.row_facts import Facts, facts_of_file, texts_of
from webapp.runs.launch.job_lookup import ResolvedJob
from webapp.runs.spec import DEMO_MODEL

CHARACTERS_A_TOKEN = 4
"""A rule of thumb for English and JSON; a tokenizer alone knows."""


class Tokens(Frozen):
    """Lengths in tokens, reckoned from characters. `most` is the longest row's, `limit` what the job allows, and `long`
    counts the rows that are longer."""

    mean: int
    most: int
    long: int
    limit: int
    field: str
    note: str


def tokens_of(asked: ResolvedJob, facts: Facts | None) -> Tokens | None:
    """What is known of the lengths of the rows to learn from; rows that are too long are warned of."""
    config = asked.config
    if config is None:
        return None
    supervised = isinstance(config, Supervised)
    name = "max_length" if isinstance(config, Supervised) else "decoding.trajectory_tokens"
    limit = config.max_length if isinstance(config, Supervised) else config.decoding.trajectory_tokens
    if facts is None:
        tokens = _of_frozen(asked, name, limit)
        if tokens is None and asked.file is not None:
            message = (
                f"The file is too large to look through now: whether rows are longer than {name} ({limit}) is unknown."
            )
            asked.warn(f"changes.{name}", "not_looked_at", message)
    elif asked.base == DEMO_MODEL:
        tokens = _of_demo(asked, name, limit)
    else:
        told = "a whole trajectory" if supervised else "what an agent is told before its first turn"
        tokens = _reckoned([row.characters for row in facts.rows], name, limit, told)
    if tokens is not None and tokens.most > limit:
        _warn(asked, config, tokens)
    return tokens


def warn_of_evaluation(asked: ResolvedJob) -> None:
    """Warn of tasks of an uploaded evaluation that leave the agent no room: an RL job fails on them at its start."""
    if not isinstance(asked.config, Reinforcement) or asked.evaluation_file is None:
        return
    limit = asked.config.decoding.trajectory_tokens
    if asked.base == DEMO_MODEL:
        lengths = _demo_lengths(None, asked.evaluation_file, limit)
    else:
        facts = facts_of_file(asked.evaluation_file)
        lengths = [_tokens(row.characters) for row in facts.rows] if facts else []
    if max(lengths, default=0) > limit:
        long = sum(length > limit for length in lengths)
        message = (
            f"{long} of its tasks {'have' if long > 1 else 'has'} more than {limit} tokens before the agent's first "
            "turn, as far as characters tell. A job that meets one fails before its first step: raise "
            "changes.decoding.trajectory_tokens, or leave such tasks out."
        )
        asked.warn("validation_file", "too_long", message)


def _warn(asked: ResolvedJob, config: JobConfig, tokens: Tokens) -> None:
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


def _of_frozen(asked: ResolvedJob, name: str, limit: int) -> Tokens | None:
    """From what was counted when the dataset was frozen."""
    known = asked.dataset.tokens if asked.dataset is not None else {}
    if asked.base == DEMO_MODEL or not known.get("most"):
        return None
    tokens = _reckoned([int(known["most"])], name, limit, "a row")
    mean = round(float(known.get("mean") or 0) / CHARACTERS_A_TOKEN)
    return tokens.model_copy(update={"mean": mean, "long": 0}) if tokens else None


def _reckoned(characters: list[int], name: str, limit: int, told: str) -> Tokens | None:
    if not characters:
        return None
    lengths = [_tokens(count) for count in characters]
    return Tokens(
        mean=round(sum(characters) / len(characters) / CHARACTERS_A_TOKEN),
        most=max(lengths),
        long=sum(length > limit for length in lengths),
        limit=limit,
        field=name,
        note=f"of {told}, at {CHARACTERS_A_TOKEN} characters a token: a rule of thumb, the tokenizer alone knows",
    )


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_A_TOKEN)


def _demo_lengths(dataset: Dataset | None, file: StoredFile | None, limit: int) -> list[int]:
    """Lengths by row. The tiny model's tokenizer is made of the data, and whole manuals are one token: bounds from
    below, counted no further than twice the limit."""
    lengths = []
    for texts in texts_of(dataset, file):
        left = most = 2 * limit
        for text in texts:
            left -= pieces(text, left)
        lengths.append(most - left)
    return lengths


def _of_demo(asked: ResolvedJob, name: str, limit: int) -> Tokens | None:
    lengths = _demo_lengths(asked.dataset, asked.file, limit)
    if not lengths:
        return None
    return Tokens(
        mean=round(sum(lengths) / len(lengths)),
        most=max(lengths),
        long=sum(length > limit for length in lengths),
        limit=limit,
        field=name,
        note="of a row at least, without what every agent is told: the tiny model's tokenizer is made of the data",
    )
