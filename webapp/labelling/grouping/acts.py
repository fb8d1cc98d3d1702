"""Buttons of a page that groups labels, and how they change what is filled in."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict

from webapp.common.query_params import Params
from webapp.labelling.grouping.label_groups import GROUP_CHARS
from webapp.labelling.grouping.suggestions import find_commonest_name, suggest_groups
from webapp.labelling.models import LabelItem

MOST_REFUSED = 300
KEY_CHARS = 4_000


def parse_grouping(data: QueryDict, item: LabelItem) -> dict[str, Any]:
    """Return what is filled in: the name of the group of each label, labels that are renamed, refused suggestions."""
    params = Params(data)
    keys = [str(one["id"]) for one in item.content["labels"]]
    names_by_key = {key: params.text(f"group-{key}", GROUP_CHARS, strip=True) for key in keys}
    refused = params.texts("refused", KEY_CHARS)[:MOST_REFUSED]
    return {
        "groups": {key: name for key, name in names_by_key.items() if name},
        "renamed": params.picks("renamed", len(keys)),
        "refused": refused,
    }


def change_grouping(data: QueryDict, item: LabelItem, body: dict[str, Any]) -> str:
    """Apply the pressed button to what is filled in. Return the error, or an empty string."""
    params = Params(data)
    if renamed := params.id("rename"):
        body["renamed"] = [*body["renamed"], renamed]
        return ""
    if kept_label := params.id("keep_name"):
        body["renamed"] = [pk for pk in body["renamed"] if pk != kept_label]
        return ""
    if refused := params.text("refuse", KEY_CHARS):
        body["refused"] = [*body["refused"], refused]
        return ""
    if accepted := params.text("accept", KEY_CHARS):
        return _accept_suggestion(item, body, accepted)
    return _group_ticked_labels(params, item, body)


def _accept_suggestion(item: LabelItem, body: dict[str, Any], key: str) -> str:
    offered = suggest_groups(item, body["groups"], body["refused"])
    suggestion = next((one for one in offered if one.key == key), None)
    if suggestion is None:
        return "That suggestion does not fit any more: its labels were put into groups since."
    if not suggestion.joins and suggestion.name in body["groups"].values():
        return _describe_existing_group(suggestion.name)
    body["groups"] |= {str(label["id"]): suggestion.name for label in suggestion.labels}
    return ""


def _group_ticked_labels(params: Params, item: LabelItem, body: dict[str, Any]) -> str:
    """Put the ticked labels into the group that is named, or out of any. Without a name a new group takes one of
    their names."""
    picked = {str(pk) for pk in params.picks("label", 1_000)}
    ticked = [label for label in item.content["labels"] if str(label["id"]) in picked]
    if not ticked:
        return "Tick the labels that belong together first."
    if params.flag("out"):
        for label in ticked:
            body["groups"].pop(str(label["id"]), None)
        return ""
    name = params.text("into", GROUP_CHARS, strip=True) or params.text("group", GROUP_CHARS, strip=True)
    known_names = {one.casefold(): one for one in body["groups"].values()}
    if not name:
        if len(ticked) < 2:
            return "Tick two labels or more, or name the group that this label goes into."
        name = find_commonest_name(ticked)
        if name.casefold() in known_names:
            return _describe_existing_group(name)
    body["groups"] |= {str(label["id"]): known_names.get(name.casefold(), name) for label in ticked}
    return ""


def _describe_existing_group(name: str) -> str:
    return f"There is a group “{name}” already. Name the group that these labels go into."
