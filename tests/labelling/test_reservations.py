"""Who holds which item of a round: never more people than it takes, whoever leaves, whatever comes at once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from tests.labelling import seed
from webapp.accounts.models import User
from webapp.common.errors import Conflict
from webapp.common.leases import AssignmentState
from webapp.labelling import answers, reservations, sessions
from webapp.labelling.answers import LabelChoice, Placing, submit_label
from webapp.labelling.models import Ask, Label, LabelDraft, Reservation
from webapp.labelling.reservations import pull_next


def ended(row: Reservation) -> None:
    Reservation.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(seconds=1))


@pytest.mark.django_db(transaction=True)
def test_many_who_label_at_once_never_give_an_item_more_labels_than_it_takes() -> None:
    maker, *crowd = seed.people("adjudicator", *["annotator"] * 8)
    nodes = seed.tree()
    for number in range(6):
        seed.environment(f"e{number}", nodes["Clubs"])
    session = seed.place_session(maker, overlap=3)

    def work(user: User) -> list[int]:
        seen = []
        try:
            while (row := pull_next(user, session)) is not None:
                seen.append(row.ask.item_id)
                submit_label(user, row.pk, LabelChoice(placing=Placing(nodes["Clubs"])))
        finally:
            connection.close()
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(work, crowd))
    counted = Counter(item for mine in seen for item in mine)
    assert len(counted) == 6
    assert set(counted.values()) == {3}
    assert all(len(mine) == len(set(mine)) for mine in seen), "nobody has one item twice"
    assert set(Ask.objects.values_list("free", flat=True)) == {0}


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_at_once_for_the_last_place_and_of_one_label_sent_twice_one_wins() -> None:
    maker, ann, bob = seed.people("adjudicator", "annotator", "annotator")
    nodes = seed.tree()
    seed.environment("only", nodes["Clubs"])
    session = seed.place_session(maker, overlap=1)

    def ask(user: User) -> Reservation | None:
        try:
            return pull_next(user, session)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        got = [row for row in pool.map(ask, [ann, bob]) if row is not None]
    assert len(got) == 1

    def say(node: int) -> str:
        try:
            submit_label(got[0].user, got[0].pk, LabelChoice(placing=Placing(node)))
        except Conflict as error:
            return error.code
        finally:
            connection.close()
        return ""

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(say, [nodes["Clubs"], nodes["Banking"]]))
    assert sorted(said) == ["", "decided"]
    assert Label.objects.count() == 1


@pytest.mark.django_db
def test_the_database_itself_refuses_one_person_or_one_label_too_many() -> None:
    maker, ann, bob = seed.people("adjudicator", "annotator", "annotator")
    seed.environment("only", seed.tree()["Clubs"])
    session = seed.place_session(maker, overlap=1)
    row = seed.pulled(ann, session)
    for values in ({"place": 1, "user": bob}, {"place": 2, "user": ann}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Reservation.objects.create(ask=row.ask, round_id=row.round_id, expires_at=timezone.now(), **values)
    with pytest.raises(IntegrityError), transaction.atomic():
        Ask.objects.filter(pk=row.ask_id).update(free=-1)
    label = submit_label(ann, row.pk, LabelChoice(placing=Placing(None)))
    with pytest.raises(IntegrityError), transaction.atomic():
        Label.objects.create(
            ask=row.ask, item=label.item, round=label.round, reservation=row, user=bob, guideline=label.guideline
        )
    with pytest.raises(IntegrityError), transaction.atomic():
        Label.objects.create(ask=row.ask, item=label.item, round=label.round, user=bob, guideline=label.guideline)


@pytest.mark.django_db
def test_who_leaves_half_way_blocks_nobody_and_finds_their_draft_again() -> None:
    maker, ann, bob, eve = seed.people("adjudicator", "annotator", "annotator", "annotator")
    nodes = seed.tree()
    seed.environment("only", nodes["Clubs"])
    session = seed.place_session(maker, overlap=1)
    mine = seed.pulled(ann, session)
    answers.save_draft(ann, mine.pk, {"node": nodes["Clubs"], "comment": "Dues alone."})
    assert pull_next(bob, session) is None
    ended(mine)
    theirs = seed.pulled(bob, session)
    with pytest.raises(Conflict, match="kept as a draft"):
        submit_label(ann, mine.pk, LabelChoice(placing=Placing(nodes["Clubs"])))
    answers.save_draft(ann, mine.pk, {"node": nodes["Clubs"], "comment": "Dues alone, and late."})
    assert pull_next(eve, session) is None
    reservations.give_back_item(bob, theirs.pk)
    again = reservations.extend_reservation(ann, mine.pk)
    assert (again.state, again.pk != mine.pk, again.ask.free) == (AssignmentState.HELD, True, 0)
    draft = answers.find_draft(ann, again.ask_id)
    assert draft is not None
    assert draft.body["comment"] == "Dues alone, and late."
    submit_label(ann, again.pk, LabelChoice(placing=Placing(nodes["Clubs"])))
    assert not LabelDraft.objects.exists()


@pytest.mark.django_db
def test_a_skipped_item_comes_back_only_when_it_is_asked_for() -> None:
    maker, ann = seed.people("adjudicator", "annotator")
    seed.environment("only", seed.tree()["Clubs"])
    session = seed.place_session(maker, overlap=1)
    reservations.skip_item(ann, seed.pulled(ann, session).pk)
    assert pull_next(ann, session) is None
    assert reservations.unskip_items(ann, session) == 1
    assert pull_next(ann, session) is not None


@pytest.mark.django_db
def test_only_those_who_were_chosen_label_and_nobody_in_a_closed_round() -> None:
    maker, ann, bob, viewer = seed.people("adjudicator", "annotator", "annotator", "viewer")
    nodes = seed.tree()
    seed.environment("one", nodes["Clubs"])
    seed.environment("two", nodes["Clubs"])
    session = seed.place_session(maker, overlap=1, members=("the-annotator",))
    assert ann.username == "the-annotator"
    for user in (bob, viewer, maker):
        with pytest.raises(Conflict, match="labelled by others"):
            pull_next(user, session)
    with pytest.raises(Conflict, match="Annotators label"):
        sessions.close_round(ann, session.pk)
    with pytest.raises(Conflict, match="Nothing has been labelled"):
        sessions.close_round(maker, session.pk)
    seed.labelled(ann, session, nodes["Clubs"])
    held = seed.pulled(ann, session)
    closed = sessions.close_round(maker, session.pk)
    assert (closed.missing, closed.is_open) == (1, False), "closed with fewer, and said so"
    for act in (
        lambda: pull_next(ann, session),
        lambda: submit_label(ann, held.pk, LabelChoice(placing=Placing(None))),
    ):
        with pytest.raises(Conflict) as refused:
            act()
        assert refused.value.code == "round_closed"
