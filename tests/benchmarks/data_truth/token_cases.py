"""Marks that content spells, in every place of a conversation, for three tokenizers: needs the training environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial


def cases() -> Iterator[tuple[str, str, Callable[[], None]]]:
    from tests.training import test_token_marks as known

    for name in known.FORGED:
        for place in known.PLACES:
            yield "tokens", f"{name}: {place}", partial(known.test_marks_are_the_templates_alone, name, place)
        yield "tokens", f"{name}: RL", partial(known.test_what_a_tool_says_begins_no_turn_in_rl, name)
