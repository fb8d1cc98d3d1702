"""Proposals requested from a model for the newest round of a session, and written as labels without a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models import Exists, OuterRef

from synthesis.errors import InputError, LLMError, MalformedReply
from synthesis.formats.values import clean_text
from synthesis.llm.asker import Asker
from synthesis.llm.store import MemoryStore
from synthesis.taxonomy.group_judge import GroupBrief, GroupReply, OfferedLabel, group_labels
from synthesis.taxonomy.place_judge import OfferedPlace, PlaceBrief, PlaceReply, place_item
from webapp.common.errors import Conflict, NotFound
from webapp.common.templatetags.show import counted
from webapp.endpoints.connections import open_chat_model
from webapp.endpoints.models import Endpoint
from webapp.endpoints.queries import find_choice
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.jobs.services import enqueue_job
from webapp.labelling.frozen import FrozenTree
from webapp.labelling.grouping.label_groups import Groups, clean_groups, require_every_label
from webapp.labelling.models import Ask, Guideline, Label, LabelItem, LabelSession, SessionKind, SessionState
from webapp.labelling.rights import require_editor
from webapp.labelling.sessions import APPLIED, newest_guideline

PROPOSE_JOB = "propose_labels"
AT_ONCE = 8
NAME_CHARS = 200
Progress = Callable[[int, int, str], None]
Reply = PlaceReply | GroupReply
Question = Callable[[Asker, str], Awaitable[Reply]]
"""Asks a judge about one item, which is named by the text."""


@dataclass
class ProposalRun:
    """The results of a round's items: `malformed` gave no usable reply, and left nothing."""

    judge: str
    asked: int = 0
    labelled: int = 0
    malformed: list[dict[str, str]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        return {"judge": self.judge, "asked": self.asked, "labelled": self.labelled, "failed": self.malformed}


def find_proposal_job(session: LabelSession) -> Job | None:
    """Return the job that asks a model now."""
    return find_open_job(PROPOSE_JOB, f"label_session:{session.pk}")


def start_proposals(user: Any, session: LabelSession, model: str) -> Job:
    """Queue the requests to a model. Raises NotFound: no such model; Conflict: it is applied, or the user may not."""
    require_editor(user)
    if session.state == SessionState.APPLIED:
        raise Conflict(APPLIED)
    if find_choice(model) is None:
        raise NotFound("There is no such model. Choose one that an endpoint lists.")
    open_job = find_proposal_job(session)
    if open_job is not None:
        return open_job
    payload = {"session": session.pk, "model": model}
    title = f"A model's labels in {session.name}"
    return enqueue_job(PROPOSE_JOB, title, payload, user, subject=f"label_session:{session.pk}")


def list_unlabelled_asks(session: LabelSession, judge: str) -> list[Ask]:
    """Return the items of the newest round that a model has not labelled."""
    newest = session.rounds.order_by("-number").first()
    mine = Label.objects.filter(ask=OuterRef("pk"), judge=judge, undone_at__isnull=True)
    rows = Ask.objects.filter(round=newest).exclude(Exists(mine))
    return list(rows.select_related("item").order_by("position"))


def run_proposals(session: LabelSession, model: str, progress: Progress) -> ProposalRun:
    """Ask a model about every item that it has not labelled; what is written stays. `progress` may raise to stop.

    Raises InputError: no such model; LLMError: the endpoint.
    """
    choice = find_choice(model)
    if choice is None:
        raise InputError("There is no such model any more. Choose another one.")
    row, name = choice
    run = ProposalRun(f"{row.name}: {name}"[:NAME_CHARS])
    asks, guideline = list_unlabelled_asks(session, run.judge), newest_guideline(session)
    tree = FrozenTree.of(session)
    places = tuple(OfferedPlace(id=node.id, path=node.path, words=tree.words(node.id)) for node in tree)
    for start_at in range(0, len(asks), AT_ONCE):
        progress(start_at, len(asks), counted(run.labelled, "label"))
        chunk = asks[start_at : start_at + AT_ONCE]
        replies = async_to_sync(_ask_judge)(
            row, name, [_build_question(session, guideline, ask.item, places) for ask in chunk]
        )
        for ask, reply in zip(chunk, replies, strict=True):
            if isinstance(reply, MalformedReply) or not isinstance(reply, LLMError):
                _save_reply(run, ask, guideline, reply)
        for reply in replies:
            if isinstance(reply, LLMError) and not isinstance(reply, MalformedReply):
                raise reply
    progress(len(asks), len(asks), counted(run.labelled, "label"))
    return run


def _build_question(
    session: LabelSession, guideline: Guideline, item: LabelItem, places: tuple[OfferedPlace, ...]
) -> Question:
    """Return the question to a judge about an item: what people see of it, and no more."""
    if session.kind == SessionKind.MERGE:
        labels = tuple(
            OfferedLabel(id=row["id"], name=row["name"], above=row["parent_name"], below=tuple(row["below"]))
            for row in item.content["labels"]
        )
        groups = GroupBrief(guideline=guideline.text, labels=labels)

        def require_groups(reply: GroupReply) -> None:
            _check_reply_groups(item, reply)

        return lambda asker, name: group_labels(asker, groups, name, require_groups)
    brief = _build_place_brief(session, guideline, item, places)
    return lambda asker, name: place_item(asker, brief, name)


def _check_reply_groups(item: LabelItem, reply: GroupReply) -> Groups:
    """Return a judge's groups in the item's order. Raises InputError as for a person's."""
    given = [group.model_dump() for group in reply.groups]
    require_every_label(item, given)
    return clean_groups(item, given)


def _build_place_brief(
    session: LabelSession, guideline: Guideline, item: LabelItem, places: tuple[OfferedPlace, ...]
) -> PlaceBrief:
    """Build the question: what people see of the item, and no more."""
    tools = ", ".join(
        f"{tool['name']}{' (changes)' if tool['kind'] == 'change' else ''}" for tool in item.content["tools"]
    )
    rules = "\n".join(f"- {rule}" for rule in item.content.get("rules", []))
    sections = [
        f"Name: {item.name}",
        item.content["text"],
        f"Tools: {tools or 'none'}",
        f"Rules:\n{rules}" if rules else "",
    ]
    return PlaceBrief(
        what=session.get_places_display(), object="\n\n".join(part for part in sections if part),
        guideline=guideline.text, places=places,
    )  # fmt: skip


async def _ask_judge(
    row: Endpoint, model: str, questions: Sequence[Question]
) -> list[Reply | MalformedReply | LLMError]:
    """Return the replies, in order; a failure takes the place of its reply, so that the others are kept."""
    async with open_chat_model(row, model, "judge") as chat:
        asker = Asker({"judge": chat}, MemoryStore())

        async def answer_question(number: int, question: Question) -> Reply | MalformedReply | LLMError:
            try:
                return await question(asker, f"item-{number}")
            except (MalformedReply, LLMError) as error:
                return error

        return list(
            await asyncio.gather(*(answer_question(number, question) for number, question in enumerate(questions)))
        )


def _save_reply(run: ProposalRun, ask: Ask, guideline: Guideline, reply: Reply | MalformedReply) -> None:
    run.asked += 1
    if isinstance(reply, MalformedReply):
        run.malformed.append({"place": f"item {ask.item.position}", "reason": clean_text(str(reply))[:500]})
        return
    with transaction.atomic():
        _, new = Label.objects.get_or_create(
            ask=ask, judge=run.judge, undone_at=None,
            defaults={
                "item": ask.item, "round_id": ask.round_id, "guideline": guideline, "confidence": reply.confidence,
                "comment": clean_text(reply.comment), **_build_answer_columns(ask.item, reply),
            },
        )  # fmt: skip
    run.labelled += new


def _build_answer_columns(item: LabelItem, reply: Reply) -> dict[str, Any]:
    """Return the columns of a label that hold the answer."""
    if isinstance(reply, GroupReply):
        return {"groups": _check_reply_groups(item, reply)}
    return {"node": reply.place, "gold_right": None if item.gold is None else reply.place == item.gold}
