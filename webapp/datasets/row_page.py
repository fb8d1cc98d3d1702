"""Pages of a frozen dataset's rows, fifty each, found by their place in the file."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from synthesis.errors import EnvariumError, FormatError
from synthesis.formats.verifier_record import describe_verifier
from training.dataset import Row, SideName, TaskRow, TrajectoryRow, parse_line
from training.dataset.files import LINE_BYTES
from webapp.common.query_params import LARGEST_ID, Params, parse_whole_number
from webapp.datasets.evidence.near_duplicates import get_row_instruction
from webapp.datasets.models import Dataset
from webapp.datasets.storage import get_manifest, open_file
from webapp.scenarios.models import TaskRevision

PAGE = 50


def build_rows_page(request: HttpRequest, dataset: Dataset) -> dict[str, Any]:
    """Return the page of rows that the address names. An invalid offset gives the first page."""
    manifest = get_manifest(dataset)
    params = Params(request.GET)
    side: SideName = "test" if params.text("side") == "test" and manifest.test.rows else "train"
    start, number = params.number("at", high=LARGEST_ID) or 0, params.number("row", high=LARGEST_ID) or 0
    context: dict[str, Any] = {"side": side, "sides": [("train", manifest.train), ("test", manifest.test)]}
    try:
        rows, end = _read_page(dataset, side, start)
    except EnvariumError as error:
        return context | {"rows_problem": str(error), "lines": [], "first": 0}
    total = manifest.test.rows if side == "test" else manifest.train.rows
    more = end < (manifest.test.bytes if side == "test" else manifest.train.bytes)
    base = reverse("datasets:dataset", args=[dataset.public_id])
    return context | {
        "lines": _build_row_lines(rows, number, here=dataset.source == "selection"),
        "first": number + 1,
        "total": total,
        "following": f"{base}?side={side}&at={end}&row={number + len(rows)}#rows" if more and rows else "",
        "beginning": f"{base}?side={side}#rows" if start else "",
    }


def _read_page(dataset: Dataset, side: SideName, start: int) -> tuple[list[Row], int]:
    """Return a page of rows from a byte on, and the byte that follows them."""
    rows: list[Row] = []
    with open_file(dataset, f"{side}.jsonl") as file:
        if start:
            file.seek(start - 1)
            if file.read(1) != b"\n":
                raise FormatError("at", "no row begins there; go back to the first page")
        while len(rows) < PAGE and (line := file.readline(LINE_BYTES + 1)):
            rows.append(parse_line(line, dataset.kind))  # type: ignore[arg-type]
        return rows, file.tell()


def _build_row_lines(rows: list[Row], number: int, *, here: bool) -> list[dict[str, Any]]:
    """Return the table lines of rows, with the task or trajectory that each came from if it was chosen here: ids of
    an uploaded file are the uploader's."""
    keys = [parse_row_id(row.id) if here else ("", 0) for row in rows]
    revisions = [pk for what, pk in keys if what == "revision"]
    tasks = dict(TaskRevision.objects.filter(pk__in=revisions).values_list("pk", "task_id"))
    return [
        {
            "number": number + place,
            "row": row,
            "task": tasks.get(pk) if what == "revision" else None,
            "trajectory": pk if what == "trajectory" else None,
            "said": get_row_instruction(row),
            "size": _describe_size(row),
        }
        for place, (row, (what, pk)) in enumerate(zip(rows, keys, strict=True), 1)
    ]


def parse_row_id(ident: str) -> tuple[str, int]:
    """Return the origin of a row that was chosen here, `revision` or `trajectory`, and its number; empty if neither."""
    what, _, rest = ident.partition(":")
    number = parse_whole_number(rest.split(":")[0], high=LARGEST_ID)
    return (what, number) if what in ("revision", "trajectory") and number is not None else ("", 0)


def _describe_size(row: Row) -> str:
    if isinstance(row, TaskRow):
        return describe_verifier(row.rollout.verifier)
    return _format_turns(row)


def _format_turns(row: TrajectoryRow) -> str:
    number = sum(message.role == "assistant" for message in (*row.messages, *row.completion))
    return f"{number} turn{'s' * (number != 1)}"
