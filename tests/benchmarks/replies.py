"""How replies in the ways of many model families are read: useful ones as they are meant, useless ones refused.

    python -m tests.benchmarks.replies [--json] [FILE]

FILE is JSON Lines of `{family, form, reply, useful, expect}`; left out, the corpus that is a test. `form` is `json` or
`code`, `expect` the object or the code that should be read. An object is read against the shape of what is expected; a
reply without `expect` against every shape that the file expects somewhere, since a stage always knows its own. `read`
counts useful replies that were read as expected, `wrongly_read` useless ones that were read, and useful ones that were
read otherwise; `wrongly_refused` useful ones that were refused, `refused` useless ones. `by_family` has the same,
`wrong` the line numbers (from 1) with what was said. The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from synthesis.errors import InputError
from synthesis.llm.reply_reader import read_object
from synthesis.llm.source_reader import read_source

CORPUS = Path(__file__).parents[1] / "llm_layer" / "replies.jsonl"
KINDS = ("read", "refused", "wrongly_read", "wrongly_refused")


class Unknown(BaseModel):
    """An object of which nothing is known, but that it is an answer: not empty, and no cover around one."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _is_answer(self) -> Unknown:
        inside = list((self.model_extra or {}).values())
        if not inside or (len(inside) == 1 and isinstance(inside[0], dict | list)):
            raise ValueError("this is no answer")
        return self


def shape_of(expected: Any) -> type[BaseModel]:
    """A model of objects with these keys and sorts of values."""
    if not isinstance(expected, dict) or not expected:
        return Unknown
    config = ConfigDict(extra="allow", protected_namespaces=())
    fields: Any = {f"field_{place}": _field(key, value) for place, (key, value) in enumerate(expected.items())}
    return create_model("Expected", __config__=config, **fields)


def _field(key: str, value: Any) -> Any:
    kind = {bool: bool, int: float, float: float, str: str, list: list, dict: dict}.get(type(value))
    return (kind if kind is not None else Any, Field(alias=key))


def read(form: str, reply: str, shapes: Iterable[type[BaseModel]]) -> Any:
    """What is read of a reply, by the first shape that fits. Raises InputError, that of the last shape."""
    if form == "code":
        return read_source(reply).value
    refused = InputError("there is no shape to read it by")
    for shape in shapes:
        try:
            found = read_object(reply, shape).value
        except InputError as error:
            refused = error
        else:
            return found.model_dump(by_alias=True)
    raise refused


def same(form: str, found: Any, expected: Any) -> bool:
    if form == "code":
        return _lines(str(found)) == _lines(str(expected))
    return json.dumps(found, sort_keys=True) == json.dumps(_numbers(expected, found), sort_keys=True)


def _lines(code: str) -> list[str]:
    return [line.rstrip() for line in code.strip().splitlines()]


def _numbers(expected: Any, found: Any) -> Any:
    """2 and 2.0 are one number."""
    if type(expected) in (int, float) and type(found) in (int, float) and expected == found:
        return found
    if isinstance(expected, dict) and isinstance(found, dict):
        return {key: _numbers(value, found.get(key)) for key, value in expected.items()}
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [_numbers(left, right) for left, right in zip(expected, found, strict=True)]
    return expected


def judged(row: dict[str, Any], shapes: list[type[BaseModel]]) -> tuple[str, str]:
    """(one of `KINDS`, what was read or why it was refused) of a line."""
    form, expected = row["form"], row.get("expect")
    own = [shape_of(expected)] if isinstance(expected, dict) else shapes
    try:
        found = read(form, row["reply"], own)
    except InputError as error:
        return ("wrongly_refused" if row["useful"] else "refused"), str(error)
    right = row["useful"] and same(form, found, expected)
    return ("read" if right else "wrongly_read"), str(found)[:200]


def measured(rows: list[dict[str, Any]]) -> dict[str, Any]:
    keys = {}
    for row in rows:
        if row["form"] == "json" and row["useful"] and isinstance(row.get("expect"), dict):
            keys[json.dumps(sorted((key, type(value).__name__) for key, value in row["expect"].items()))] = row[
                "expect"
            ]
    shapes = [shape_of(expected) for expected in keys.values()] or [Unknown]
    began = time.perf_counter()
    seen = [judged(row, shapes) for row in rows]
    families: dict[str, Counter[str]] = {}
    for row, (kind, _) in zip(rows, seen, strict=True):
        families.setdefault(str(row.get("family", "")), Counter())[kind] += 1
    counts = Counter(kind for kind, _ in seen)
    return {
        "replies": len(rows),
        **{kind: counts[kind] for kind in KINDS},
        "by_family": {family: {kind: count[kind] for kind in KINDS} for family, count in families.items()},
        "wrong": [[line, kind, said] for line, (kind, said) in enumerate(seen, 1) if kind.startswith("wrongly")],
        "seconds": round(time.perf_counter() - began, 3),
    }


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measured(rows_of(given.file))
    if given.json:
        print(json.dumps(found, ensure_ascii=False))
        return
    for family, counts in found["by_family"].items():
        print(f"{family:12} " + "  ".join(f"{kind} {counts[kind]}" for kind in KINDS))
    for line, kind, said in found["wrong"]:
        print(f"line {line}: {kind}: {said}")
    print(json.dumps({key: found[key] for key in ("replies", *KINDS, "seconds")}))


if __name__ == "__main__":
    main()
