"""Sessions whose rounds people have labelled, made straight as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from tests.fixtures import pages_seed
from webapp.accounts.models import Role, User
from webapp.jobs.jobs import run_job
from webapp.labelling.models import Ask, Label, LabelItem, LabelRound, LabelSession, Reservation
from webapp.labelling.results import services

TREE = [
    [1, None, 1, "Health & Fitness"], [11, 1, 2, "Hospital Wards"], [12, 1, 2, "Clinics"], [13, 1, 2, "Pharmacy"],
    [131, 13, 3, "Stock"], [132, 13, 3, "Dispensing"],
    [2, None, 1, "Travel"], [21, 2, 2, "Ticketing"], [22, 2, 2, "Ferries"],
    [3, None, 1, "Logistics"], [31, 3, 2, "Freight"], [32, 3, 2, "Sea Freight"],
    [4, None, 1, "Community"], [41, 4, 2, "Lending & Sharing"],
    [5, None, 1, "Education"], [51, 5, 2, "Libraries"],
]  # fmt: skip
PEOPLE = ("ines", "marek", "tove")
Said = Mapping[str, Sequence[int | None]]
"""By annotator, the node of each item in order; 0: did not answer."""


def people(names: Sequence[str] = PEOPLE) -> dict[str, User]:
    found = {}
    for name in names:
        found[name] = User.objects.filter(username=name).first() or User.objects.create_user(
            username=name, password="not used here", role=Role.ANNOTATOR
        )
    return found


def session(name: str = "Place environments", **fields: Any) -> LabelSession:
    made = LabelSession.objects.create(
        name=name, **{"kind": "place", "places": "environment", "tree": TREE, "state": "closed"} | fields
    )
    made.guidelines.create(number=1, text="Ask what the state holds.")
    return made


def items(made: LabelSession, count: int, gold: Mapping[int, int] | None = None) -> list[LabelItem]:
    known = gold or {}
    return LabelItem.objects.bulk_create(
        LabelItem(session=made, position=place, key=place, name=f"Item {place}", gold=known.get(place - 1))
        for place in range(1, count + 1)
    )


def labelled(
    made: LabelSession,
    asked: Sequence[LabelItem],
    said: Said,
    *,
    number: int = 1,
    is_open: bool = False,
    judge: Sequence[int | None] = (),
    seconds: Mapping[str, float] | None = None,
    groups: Mapping[str, Any] | None = None,
) -> LabelRound:
    """One round with these answers; `judge` are those of a model, `groups` those of people who grouped."""
    found = made.rounds.create(number=number, is_open=is_open, closed_at=None if is_open else timezone.now())
    asks = Ask.objects.bulk_create(
        Ask(session=made, round=found, item=item, position=item.position, overlap=4, free=0) for item in asked
    )
    guideline = made.guidelines.get(number=1)
    who = people(list(said) + list(groups or {}))
    end = timezone.now() + timedelta(hours=1)
    answers = [
        (name, ask, {"node": node}) for name, nodes in said.items() for ask, node in zip(asks, nodes, strict=True)
    ] + [(name, asks[0], {"groups": given}) for name, given in (groups or {}).items()]
    given = [(name, ask, answer) for name, ask, answer in answers if answer != {"node": 0}]
    order = {name: place for place, name in enumerate(who, start=1)}
    held = Reservation.objects.bulk_create(
        Reservation(ask=ask, round=found, user=who[name], place=order[name], state="decided", expires_at=end)
        for name, ask, _ in given
    )
    took = seconds or {}
    Label.objects.bulk_create(
        Label(
            ask=ask, item=ask.item, round=found, reservation=row, user=who[name], guideline=guideline,
            seconds=took.get(name, 48.0), **answer,
        )
        for row, (name, ask, answer) in zip(held, given, strict=True)
    )  # fmt: skip
    Label.objects.bulk_create(
        Label(ask=ask, item=ask.item, round=found, judge="local/qwen3", guideline=guideline, node=node)
        for ask, node in zip(asks, judge, strict=False)
    )
    return found


def ordinary(**fields: Any) -> LabelSession:
    """Eight items with the pictures' disputes, a known answer, a model, and a second round about two of them."""
    made = session(**fields)
    asked = items(made, 9, gold={8: 21})
    labelled(
        made,
        asked,
        {
            "ines": [11, 22, 131, 21, 41, 11, 31, 51, 21],
            "marek": [11, 31, 132, 21, 13, 11, 31, 51, 21],
            "tove": [12, 32, 131, 2, 51, 11, 31, 51, 22],
        },
        judge=[11, 31, 131, 21, 51, 11, 31, 51, 21],
        seconds={"tove": 7.0},
    )
    labelled(made, asked[1:2] + asked[4:5], {"ines": [31, 51], "marek": [31, 51], "tove": [32, 51]}, number=2)
    return made


def adjudicator() -> User:
    return User.objects.filter(role=Role.ADJUDICATOR).first() or pages_seed.person(Role.ADJUDICATOR)


def measured() -> LabelSession:
    """An ordinary one as its job leaves it."""
    made = ordinary(name="a label session")
    run_job(services.start_measuring(None, made).pk)
    return made
