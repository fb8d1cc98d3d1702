"""Requests in the records archive."""

from __future__ import annotations

from synthesis.scripted.programs.recipes.words import find_full_names, get_named_record, get_text_after
from synthesis.scripted.programs.solver import Recipe, Steps


def clear_out(words: str) -> Steps | None:
    return _clear_out(words) if "no longer has to be kept" in words else None


def _clear_out(words: str) -> Steps:
    listed = yield "list_boxes", {"open_only": True}
    box = get_named_record(words, listed["boxes"], "label")
    current = yield "get_year", {}
    files = yield "list_files", {"box_id": box["box_id"]}
    over = [
        record["file_id"]
        for record in files["files"]
        if not record["on_hold"]
        and record["status"] == "filed"
        and current["year"] - record["closed_year"] > record["keep_years"]
    ]
    for file in over:
        yield "destroy_file", {"file_id": file}
    return f"{len(over)} files went; everything else in {box['label']} stays.", {"shredded": len(over)}


def bring_together(words: str) -> Steps | None:
    return _bring_together(words) if "from now on. Bring it there" in words else None


def _bring_together(words: str) -> Steps:
    department = get_text_after(words, "Everything from ").split()[0]
    listed = yield "list_boxes", {"open_only": True}
    target = get_named_record(words, listed["boxes"], "label")
    files = yield "list_files", {"department": department}
    away = [record["file_id"] for record in files["files"] if record["box_id"] != target["box_id"]]
    for file in away:
        yield "move_file", {"file_id": file, "box_id": target["box_id"]}
    yield "seal_box", {"box_id": target["box_id"]}
    message = (
        f"{len(away)} files were brought to {find_full_names(target['label'])[0]}, and the box is closed for good."
    )
    return message, {"brought": len(away)}


RECIPES: tuple[Recipe, ...] = (clear_out, bring_together)
