"""Text of a tool case in prompts, for cases of drafts and of rows."""

from __future__ import annotations

from typing import Any, Protocol

from synthesis.assessment.prompt_values import format_value

EXPECTED = {"negative": "Refused. Nothing changes.", "positive": "Carried out."}
"""What a tester means by a case: a call that an environment has to refuse, or one that it has to carry out."""


class JudgedCase(Protocol):
    """Tool case with its verdict."""

    @property
    def tool(self) -> str: ...
    @property
    def arguments(self) -> Any: ...
    @property
    def case(self) -> Any: ...
    @property
    def expectation(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def result(self) -> Any: ...
    @property
    def error(self) -> str: ...
    @property
    def patch(self) -> Any: ...
    @property
    def verdict(self) -> Any: ...
    @property
    def reason(self) -> str: ...


def format_case(case: JudgedCase, most: int = 500) -> str:
    """Return the text of a case in prompts; each value has at most `most` characters."""
    happened = format_value(case.result, most) if case.ok else case.error[:most]
    expectation = f" ({case.expectation[:most]})" if case.expectation else ""
    lines = [
        f"call: {case.tool}({format_value(case.arguments, most)})",
        f"expected: {EXPECTED[case.case]}{expectation}",
        f"happened: {happened}",
        f"changes of the state: {format_value(list(case.patch), most) if case.patch else 'none'}",
        f"verdict: {case.verdict}. {case.reason[:most]}",
    ]
    return "\n".join(lines)
