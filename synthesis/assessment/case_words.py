"""Words for a tool case as prompts show it, whoever keeps the case: a draft or a row."""

from __future__ import annotations

from typing import Any, Protocol

from synthesis.assessment.prompt_values import shown

EXPECTED = {"negative": "Refused. Nothing changes.", "positive": "Carried out."}
"""What a tester means by a case: a call that an environment has to refuse, or one that it has to carry out."""


class JudgedCase(Protocol):
    """A case with its verdict."""

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


def case_text(case: JudgedCase, most: int = 500) -> str:
    """A case as prompts show it; each value in at most `most` characters."""
    happened = shown(case.result, most) if case.ok else case.error[:most]
    more = f" ({case.expectation[:most]})" if case.expectation else ""
    lines = [
        f"call: {case.tool}({shown(case.arguments, most)})",
        f"expected: {EXPECTED[case.case]}{more}",
        f"happened: {happened}",
        f"changes of the state: {shown(list(case.patch), most) if case.patch else 'none'}",
        f"verdict: {case.verdict}. {case.reason[:most]}",
    ]
    return "\n".join(lines)
