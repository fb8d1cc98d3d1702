"""Acts on many selected rows of a list, with a preview; each row goes through the service that acts on one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from synthesis.errors import InputError
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params

SHOWN = 500
"""The most rows that one act takes, whether they were ticked or are those of a filter."""
WHOLE_FILTER = "all"
"""The parameter of a selection that is everything that the list's filters leave; they are the other parameters."""
TOLD = 5
"""Number of refusals listed by name; the others are counted."""


@dataclass(frozen=True)
class BulkAct:
    """One act. `carry_out` takes the person and a row, and raises InputError if it cannot be done.

    `done` ends the sentence "3 jobs ..."; `hint` describes what happens to a row, and whether that can be undone.
    `takes` returns whether the act can be done with a row in its current state; it is None if only trying shows that.
    """

    code: str
    label: str
    done: str
    hint: str
    carry_out: Callable[[Any, Any], Any]
    takes: Callable[[Any], bool] | None = None

    def skips(self, row: Any) -> bool:
        """Return whether it is known that the act would leave a row unchanged."""
        return self.takes is not None and not self.takes(row)


@dataclass(frozen=True)
class BulkList:
    """The acts of a list. `rows` are its rows without filters; `about` returns the name, the state and the page of a
    row; `filtered` returns the rows that the filters of an address leave, in the list's order; `tell` adds to rows what
    `takes` of the acts reads, if the rows do not have it."""

    one: str
    many: str
    home: str
    route: str
    rows: Callable[[], QuerySet[Any]]
    about: Callable[[Any], tuple[str, str, str]]
    acts: tuple[BulkAct, ...]
    filtered: Callable[[HttpRequest], QuerySet[Any]]
    tell: Callable[[list[Any]], None] = lambda rows: None

    def find(self, code: str) -> BulkAct:
        """Return the act with this code. Raises Http404."""
        for act in self.acts:
            if act.code == code:
                return act
        raise Http404("There is no such act on this list.")

    @property
    def bar(self) -> list[tuple[BulkAct, str]]:
        """The acts that the bar below a selection offers, each with the address of its preview."""
        return [(act, reverse(self.route, args=[act.code])) for act in self.acts]

    @property
    def told_url(self) -> str:
        """The address that counts the rows of a selection that each act would take; empty if no act has `takes`."""
        telling = [act.code for act in self.acts if act.takes is not None]
        return reverse(self.route, args=telling[:1]) if telling else ""


@dataclass(frozen=True)
class BulkLine:
    pk: int
    name: str
    state: str
    url: str
    left: bool


@dataclass(frozen=True)
class Selection:
    """The keys of the rows that an address selects: those that it names, or those that its filters leave (`whole`). Of
    `found` rows at most `SHOWN` are taken."""

    keys: tuple[int, ...]
    found: int
    whole: bool = False
    query: str = ""
    """The filters that chose the rows."""

    @property
    def beyond(self) -> int:
        """The number of rows of the filters beyond the most that one act takes."""
        return self.found - len(self.keys)


def read_selection(request: HttpRequest, filtered: Callable[[], QuerySet[Any]]) -> Selection:
    """Return the rows that an address selects. `filtered` returns the rows that its filters leave, in the list's
    order."""
    params = Params(request.GET)
    if not params.flag(WHOLE_FILTER):
        keys = params.picks("ids", SHOWN)
        return Selection(keys, len(keys))
    rows = filtered().values_list("pk", flat=True)
    selected_keys = tuple(rows[: SHOWN + 1])
    query = request.GET.copy()
    query.pop(WHOLE_FILTER, None)
    count = len(selected_keys) if len(selected_keys) <= SHOWN else rows.count()
    return Selection(selected_keys[:SHOWN], count, whole=True, query=query.urlencode())


def process_bulk_act(request: HttpRequest, chosen: BulkList, code: str) -> HttpResponse:
    """Show the preview of an act on the selected rows; on POST, carry out the act and redirect to the list.

    As the fragment of the bar below a selection: show how many of its rows each act would take. The POST names the rows
    of the preview, so that nothing is acted on that was not shown.
    """
    act = chosen.find(code)
    if request.method == "POST":
        _apply_bulk_act(request, chosen, act, Params(request.POST).picks("ids", SHOWN))
        return redirect(chosen.home)
    selection = read_selection(request, lambda: chosen.filtered(request))
    rows = _load_selected_rows(chosen, selection.keys)
    if wants_fragment(request, "bulk-told"):
        return render(request, "lists/bulk_counts.html", _build_counts_context(chosen, rows))
    lines = [BulkLine(row.pk, *chosen.about(row), act.skips(row)) for row in rows]
    home = reverse(chosen.home)
    context = {
        "bulk": chosen,
        "act": act,
        "lines": lines,
        "selection": selection,
        "missing": len(selection.keys) - len(lines),
        "left": sum(line.left for line in lines),
        "home": f"{home}?{selection.query}" if selection.query else home,
        "here": reverse(chosen.route, args=[code]),
    }
    return render(request, "lists/bulk.html", context)


def _build_counts_context(chosen: BulkList, rows: Sequence[Any]) -> dict[str, Any]:
    telling = [act for act in chosen.acts if act.takes is not None]
    return {"counts": [(act.label, sum(not act.skips(row) for row in rows)) for act in telling], "chosen": len(rows)}


def _load_selected_rows(chosen: BulkList, keys: Sequence[int]) -> list[Any]:
    rows = list(chosen.rows().filter(pk__in=keys).order_by("pk"))
    chosen.tell(rows)
    return rows


def _apply_bulk_act(request: HttpRequest, chosen: BulkList, act: BulkAct, keys: Sequence[int]) -> None:
    done_count, refused = 0, list[str]()
    for row in _load_selected_rows(chosen, keys):
        name, _, _ = chosen.about(row)
        try:
            act.carry_out(request.user, row)
        except InputError as error:
            refused.append(f"{name}: {error}")
        else:
            done_count += 1
    if done_count:
        messages.success(request, f"{done_count:,} {chosen.one if done_count == 1 else chosen.many} {act.done}.")
    if refused:
        more = f" And {len(refused) - TOLD:,} more." if len(refused) > TOLD else ""
        messages.error(request, f"{len(refused):,} left as they are. {' '.join(refused[:TOLD])}{more}"[:2_000])
    if not done_count and not refused:
        messages.error(request, f"No {chosen.one} was chosen, or those that were chosen no longer exist.")
