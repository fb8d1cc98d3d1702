"""Reading of answers: what a text says of a number, an amount of money, a date, a time, a duration, a name or a list.

Checks call these helpers by name, as they do `answer`; the audit and the host import them. Each takes a text (or
several, read as one: the messages that a tool sent, say) and the value that it should say, and answers

- True: the text asserts the value, in whatever usual spelling, and nothing in it speaks against that;
- False: it says something else, or denies the value ("not 10 but 12");
- by raising `CannotTell`: it hedges, offers a choice, or contradicts itself. The check's verdict is then `uncertain`,
  which never counts as passed, whatever the check would have made of it (`not`, `any`, `or`).

How. `tokens.py` cuts a text of at most `MOST_CHARS` characters into tokens; `numerals.py` finds numbers among them,
`quantities.py` money and durations, `dates.py` days, `clock_times.py` times, `labels.py` names and phrases: candidates,
each with the values it may stand for. `statements.py` says which candidates are denied, hedged, superseded or one of a
choice, and judges; `refusals.py` reads whether a text says that something cannot be done. Every step is linear in the
text but for pairs of candidates, of which at most `MOST_CANDIDATES` are looked at. An
answer that is given in a form is read as data by `fields.py`.
"""

from __future__ import annotations

from .fields import FIELD_TYPES, answer_fields
from .helpers import (
    denies,
    mentions,
    says_cannot,
    says_date,
    says_duration,
    says_list,
    says_money,
    says_name,
    says_number,
    says_time,
)
from .statements import MOST_CANDIDATES, CannotTell
from .tokens import MOST_CHARS

HELPERS = {
    function.__name__: function
    for function in (
        answer_fields,
        denies,
        mentions,
        says_cannot,
        says_date,
        says_duration,
        says_list,
        says_money,
        says_name,
        says_number,
        says_time,
    )
}
"""What every check finds among its names."""

__all__ = ["FIELD_TYPES", "HELPERS", "MOST_CANDIDATES", "MOST_CHARS", "CannotTell", *HELPERS]
