"""A reference made worse by a known amount: attempts whose rewards lie between 0 and 1, without an LLM."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from synthesis.contracts import Reference, ReferenceCall, Tool, Turn
from synthesis.rollout.policy import Conversation
from synthesis.rollout.reference import ReferencePolicy

KINDS = ("drop", "alter", "repeat", "wrong_tool")


class NoisyReferencePolicy:
    """A reference in which each call is, with probability `rate`, spoiled.

    A spoiled call is dropped, altered in one argument, made twice, or made of another tool. The same seed spoils the
    same calls in the same way.
    """

    def __init__(self, reference: Reference, tools: Sequence[Tool], *, rate: float, seed: int) -> None:
        if not 0 <= rate <= 1:
            raise ValueError("the rate of spoiled calls lies between 0 and 1")
        self.rate = rate
        spoiled = spoil_reference(reference, [tool.name for tool in tools], rate, random.Random(f"noisy {seed}"))
        self._played = ReferencePolicy(spoiled)

    @property
    def name(self) -> str:
        return f"noisy reference {self.rate:g}"

    async def act(self, observation: Conversation) -> Turn:
        return await self._played.act(observation)


def spoil_reference(reference: Reference, names: Sequence[str], rate: float, chance: random.Random) -> Reference:
    """Return the reference with some calls spoiled."""
    calls: list[ReferenceCall] = []
    for call in reference.calls:
        if chance.random() >= rate:
            calls.append(call)
            continue
        kind = chance.choice(KINDS)
        if kind == "alter":
            calls.append(call.model_copy(update={"arguments": _alter_argument(call.arguments, reference, chance)}))
        elif kind == "repeat":
            calls += [call, call]
        elif kind == "wrong_tool":
            others = [name for name in names if name != call.tool] or [call.tool]
            calls.append(call.model_copy(update={"tool": chance.choice(others)}))
    return reference.model_copy(update={"calls": tuple(calls)})


def _alter_argument(arguments: dict[str, Any], reference: Reference, chance: random.Random) -> dict[str, Any]:
    if not arguments:
        return arguments
    name = chance.choice(sorted(arguments))
    elsewhere = [
        value
        for call in reference.calls
        for value in call.arguments.values()
        if type(value) is type(arguments[name]) and value != arguments[name]
    ]
    return arguments | {name: _choose_other(arguments[name], elsewhere, chance)}


def _choose_other(value: Any, elsewhere: Sequence[Any], chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + chance.choice((-1, 1))
    if isinstance(value, list) and value:
        return value[:-1]
    if elsewhere:
        return chance.choice(list(elsewhere))
    return f"{value}x" if isinstance(value, str) else "x"
