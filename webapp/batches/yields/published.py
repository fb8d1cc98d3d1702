"""EnvScaler's retention, as far as the paper reports it; the rest is left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of the paper, its place there, and our corresponding figure."""

    words: str
    value: float
    place: str
    beside: str = ""


ENVSCALER = (
    PublishedFigure("environments kept, at a threshold of 0.85", 191, "3.4", "environments"),
    PublishedFigure("scenarios in them, about", 7_000, "abstract", "scenarios"),
    PublishedFigure("scenarios of an environment, about", 36.6, "from the two above", "scenarios_an_environment"),
    PublishedFigure("trajectories after filtering, about", 9_000, "B.2", "trajectories"),
    PublishedFigure("environments that they come from", 140, "B.2"),
    PublishedFigure("mean score of Qwen3-30B-A3B, alone", 0.6707, "Table 3", "mean_reward"),
    PublishedFigure("mean score of Qwen3-30B-A3B, in conversations", 0.6308, "Table 3", "mean_reward_talk"),
)
NOT_SAID = (
    "How many task texts, programs and scenarios were left out on the way the paper does not say: it speaks of high "
    "retention of tasks, and of unqualified scenarios that were removed."
)
