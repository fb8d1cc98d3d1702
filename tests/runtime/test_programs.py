"""The outline, the static check and the working schema, all read from source."""

# ruff: noqa: E501
from __future__ import annotations

import textwrap
from typing import Any

import pytest

from synthesis.errors import ProgramError
from synthesis.formats.signatures import list_signatures
from synthesis.runtime import (
    Method,
    check_program,
    derive_working_schema,
    outline_program,
    parse_annotation_schema,
    schema_findings,
    strip_arguments,
)
from synthesis.runtime.program import MethodParameter

SOURCE = textwrap.dedent('''
    import os.path
    from collections import Counter
    from dataclasses import dataclass
    from enum import Enum
    from typing import Dict, List, Literal, Optional, TypedDict, Union

    class SlotInfo(TypedDict):
        room: str

    @dataclass
    class Person:
        name: str
        def shout(self): return self.name.upper()

    class Kind(Enum):
        A = 1

    class Base:
        def shared(self, key: str):
            """From the base."""

    class Booking(Base):
        """Bookings."""
        def __init__(self, init_config: dict): self.slots = {}

        def book(self, slot: str, day: Optional[str] = None, *, seats: int = 1, tags: List[str] = (), **more) -> dict:
            """Book a slot.

            Args:
                slot (str): The slot's id.
                seats: How many.
            """
            return {}

        @property
        def size(self): return 1

        def _private(self): pass
''')


def test_outline_finds_the_environment_among_the_data() -> None:
    found = outline_program(SOURCE)
    assert (found.class_name, found.docstring) == ("Booking", "Bookings.")
    assert [m.name for m in found.methods] == ["shared", "book"]
    assert [p.name for p in found.constructor] == ["init_config"]
    assert set(found.imports) == {"os.path", "collections", "dataclasses", "enum", "typing"}
    book = found.method("book")
    assert book is not None
    assert [(p.name, p.annotation, p.default, p.kind) for p in book.parameters] == [
        ("slot", "str", None, "normal"),
        ("day", "Optional[str]", "None", "normal"),
        ("seats", "int", "1", "keyword_only"),
        ("tags", "List[str]", "()", "keyword_only"),
        ("more", "", None, "var_keyword"),
    ]
    assert book.source.lstrip().startswith("def book(")
    assert SOURCE.splitlines()[book.line - 1].strip().startswith("def book(")


def test_working_schema_follows_the_signature() -> None:
    book = outline_program(SOURCE).method("book")
    assert book is not None
    schema = derive_working_schema(book)
    assert schema["required"] == ["slot"]
    assert schema["additionalProperties"] is True
    assert schema["properties"]["slot"] == {"type": "string", "description": "The slot's id."}
    assert schema["properties"]["day"] == {"type": ["string", "null"], "default": None}
    assert schema["properties"]["seats"] == {"type": "integer", "default": 1, "description": "How many."}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("str", {"type": "string"}),
        ("float", {"type": "number"}),
        ("Any", {}),
        ("Optional[int]", {"type": ["integer", "null"]}),
        ("Union[str, int, None]", {"type": ["string", "integer", "null"]}),
        ("str | None", {"type": ["string", "null"]}),
        ("List[Dict[str, int]]", {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "integer"}}}),
        ("typing.List[str]", {"type": "array", "items": {"type": "string"}}),
        ("Optional[List[str]]", {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("Tuple[int, int]", {"type": "array", "minItems": 2, "maxItems": 2}),
        ("'Optional[str]'", {"type": ["string", "null"]}),
        ("PatientInfo", {}),
        ("Union[str, PatientInfo]", {}),
        ("][", {}),
        ("List[" * 200 + "]" * 200, {}),
    ],
)  # fmt: skip
def test_annotations(annotation: str, schema: dict[str, Any]) -> None:
    assert parse_annotation_schema(annotation) == schema


WORDY = """Lend it.

Args:
    due_on (str): Optional. Day by which it is owed back, as YYYY-MM-DD and
        after the current date,
        e.g.: "2025-11-30".
    count (int): How many.

    Not of count.
    count (int): Said twice.
Returns:
    What was lent. Refuses a day
    that is over: always.
"""


def test_descriptions_of_parameters_keep_their_further_lines() -> None:
    parameters = tuple(MethodParameter(name=name, annotation="str") for name in ("due_on", "count"))
    found = derive_working_schema(Method(name="lend", parameters=parameters, docstring=WORDY))["properties"]
    told = 'Optional. Day by which it is owed back, as YYYY-MM-DD and after the current date, e.g.: "2025-11-30".'
    assert found["due_on"]["description"] == told
    assert found["count"]["description"] == "How many."


def test_a_docstring_goes_without_what_the_schema_says() -> None:
    returned = "Returns:\n    What was lent. Refuses a day\n    that is over: always."
    assert strip_arguments(WORDY) == f"Lend it.\n\n{returned}"
    assert strip_arguments("Lend it.\n\nArgs:\n    a (int): One.\n\nIt refuses b: never.") == (
        "Lend it.\n\nIt refuses b: never."
    )


def test_differences_from_an_imported_schema_are_findings() -> None:
    book = outline_program(SOURCE.replace(", **more", "")).method("book")
    assert book is not None
    raw = {
        "properties": {"slot": {"type": "integer"}, "day": {"type": "string"}, "gone": {}},
        "required": ["day", "gone"],
    }
    kinds = {(f.kind, f.data["parameter"]) for f in schema_findings(raw, book)}
    assert kinds == {
        ("unknown_parameter", "gone"),
        ("missing_parameter", "seats"),
        ("missing_parameter", "tags"),
        ("required_with_default", "day"),
        ("required_missing", "slot"),
        ("type_differs", "slot"),
    }
    assert schema_findings(derive_working_schema(book), book) == []
    assert [f.kind for f in schema_findings("nonsense", Method(name="m"))] == ["schema_malformed"]


def kinds(source: str, *args: Any) -> set[tuple[str, str]]:
    return {(f.kind, f.severity) for f in check_program(source, *args)}


def test_static_check() -> None:
    env = "class Env:\n    def a(self):\n        '''A.'''\n"
    assert kinds(env) == set()
    assert kinds("def f(): pass") == {("no_class", "fatal")}
    assert kinds("class Env(") == {("syntax", "fatal")}
    assert kinds("import requests\n" + env) == {("import", "fatal")}
    assert kinds(env + "        import requests\n") == {("import", "warning")}
    assert kinds("try:\n    import numpy\nexcept ImportError:\n    numpy = None\n" + env) == {("import", "warning")}
    assert kinds(env + env.replace("Env", "Other")) == {("several_classes", "warning")}
    assert kinds(env + env.replace("Env", "Other"), "Env") == set()
    assert kinds(env, "Env", ["a", "_b", "c"]) == {("private_tool", "warning"), ("no_method", "warning")}
    assert kinds("class Env:\n    def a(self): pass") == {("undocumented", "warning")}
    assert kinds(env, "Missing") == {("no_class", "fatal")}
    assert kinds(SOURCE) == set()


METHOD = "    def f(self):\n        'F.'\n"


def test_classes_are_walked_once_however_often_they_inherit() -> None:
    """Forty lines took a worker for good."""
    source = "class C0:\n" + METHOD + "".join(f"class C{n}(C{n - 1}, C{n - 1}): pass\n" for n in range(1, 60))
    assert [method.name for method in outline_program(source).methods] == ["f"]
    assert kinds(source) == set()
    assert [found.name for found in list_signatures(source, "C59")] == ["f"]


def test_the_nearest_class_of_a_diamond_counts_as_in_python() -> None:
    source = (
        "class A:\n"
        + METHOD
        + "class B(A): pass\nclass C(A):\n"
        + METHOD.replace("F.", "Nearer.")
        + "class D(B, C): pass\n"
    )
    assert outline_program(source, "D").methods[0].docstring == "Nearer."


def test_countless_classes_are_not_compared() -> None:
    source = "class C0:\n" + METHOD + "".join(f"class C{n}(C{n - 1}): pass\n" for n in range(1, 20_000))
    with pytest.raises(ProgramError, match="20,000 classes"):
        outline_program(source)
    assert kinds(source) == {("syntax", "fatal")}


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def f(self, x=" + "1+" * 700 + "1): pass\n",
        "class A:\n    @a" + ".a" * 700 + "\n" + METHOD,
        "class A:\n    def f(self, x: " + "a|" * 700 + "a): pass\n",
    ],
    ids=["default", "decorator", "annotation"],
)
def test_what_is_nested_too_deeply_to_be_written_is_refused(source: str) -> None:
    with pytest.raises(ProgramError, match="nested too deeply"):
        outline_program(source)
    assert {found.severity for found in check_program(source)} <= {"fatal", "warning"}


@pytest.mark.parametrize("source", ["x = " + "(" * 5000, "\0", "a" * 3_000_000, "x = " + "-" * 100_000 + "1"])
def test_hostile_source_is_refused(source: str) -> None:
    with pytest.raises(ProgramError):
        outline_program(source)
    assert [f.severity for f in check_program(source)] == ["fatal"]
