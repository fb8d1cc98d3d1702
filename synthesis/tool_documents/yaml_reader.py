"""External YAML, read as strictly as JSON: values that JSON does not have are refused with their line."""

from __future__ import annotations

from typing import Any

import yaml

from synthesis.errors import FormatError
from synthesis.json_reader import MAX_DEPTH, read_json, require_usable

MOST_NODES = 500_000
"""Values of a document once its aliases are written out: the largest public API descriptions have a tenth of it."""


_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, ten times as fast, if the wheel has it."""


class _JSONLoader(_SafeLoader):
    """Text, numbers, booleans, null, lists and objects. Dates stay text, since JSON has none."""


_JSONLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
}


def _construct_object(loader: _JSONLoader, node: yaml.MappingNode) -> dict[str, Any]:
    """Build an object; its keys are text, as in JSON, so that `200:` is the key "200"."""
    loader.flatten_mapping(node)
    built: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise FormatError(_name_line(key_node), "a key that is no text")
        key = str(key_node.value)
        if key in built:
            raise FormatError(_name_line(key_node), f"the key {key!r} is repeated in one object")
        built[key] = loader.construct_object(value_node, deep=True)
    return built


_JSONLoader.add_constructor("tag:yaml.org,2002:map", _construct_object)


def read_yaml(text: str) -> Any:
    """Read one YAML document as a JSON-compatible value. Raises FormatError with the line or the place."""
    try:
        _require_few_levels(text)
        value = yaml.load(text, Loader=_JSONLoader)  # a SafeLoader: it builds plain values alone
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it holds more than one document, or characters that YAML forbids"
        raise FormatError(place, f"not valid YAML: {problem}") from error
    except RecursionError as error:
        raise FormatError("", "nested too deeply to read") from error
    except ValueError as error:  # a number or a binary that its own tag does not fit
        raise FormatError("", f"not valid YAML: {error}") from error
    _require_few_nodes(value)
    require_usable(value, "", broken_text=True)
    return value


def read_json_or_yaml(text: str, is_json: bool) -> Any:
    """Read a document in JSON, or in YAML if it is not JSON. Raises FormatError."""
    return read_json(text, broken_text=True) if is_json else read_yaml(text)


def _require_few_levels(text: str) -> None:
    """Raise FormatError if lists and objects are nested too deeply: libyaml recurses on them, which would end the
    process.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise FormatError(_name_line(event), f"nested more than {MAX_DEPTH} deep")


def _require_few_nodes(value: Any) -> None:
    """Raise FormatError if there are too many values with aliases expanded: a few lines can expand to billions."""
    count, waiting_items = 0, [value]
    while waiting_items:
        item = waiting_items.pop()
        count += 1
        if count > MOST_NODES:
            raise FormatError("", f"more than {MOST_NODES:,} values once its aliases are written out")
        if isinstance(item, dict):
            waiting_items.extend(item.values())
        elif isinstance(item, list):
            waiting_items.extend(item)


def _name_line(node: yaml.Node | yaml.Event) -> str:
    mark = node.start_mark
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
