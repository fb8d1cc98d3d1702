"""A small shop to audit: it keeps orders, can lose itself in a loop, and tells the time."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import Allowance, AnswerField, Frame, Program, Reference, ReferenceCall, Tool
from synthesis.runtime import encode_state
from synthesis.verifiers.call_sequences import Subject
from tests.verifier_fields import nest_verifier

SOURCE = '''
import datetime
import random


class Shop:
    """Keeps orders."""

    def __init__(self, state):
        self.orders = dict(state.get("orders", {}))
        self.log = list(state.get("log", []))

    def order(self, item: str, count: int) -> dict:
        """Order some of an item."""
        if count > 100:
            while True:
                pass
        self.orders[item] = count
        return {"ok": True}

    def look(self) -> dict:
        """Look at the orders."""
        return dict(self.orders)

    def stamp(self) -> dict:
        """Write the hour down."""
        self.log.append(datetime.datetime.now().hour)
        return {"ok": True}

    def draw(self) -> dict:
        """Draw a number."""
        self.log.append(random.randrange(10**9))
        return {"ok": True}
'''
ORDER_SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["item", "count"],
}
TOOLS = (
    Tool(name="order", kind="change", parameters=ORDER_SCHEMA),
    Tool(name="look"),
    Tool(name="stamp", kind="change"),
    Tool(name="draw", kind="change"),
)
INITIAL: dict[str, Any] = {"orders": {"soap": 1, "brush": 2}, "log": []}


def check(says: str, parameters: str = "initial_state, final_state, answer") -> str:
    return f"def check({parameters}):\n    return {says}\n"


TEA = check("final_state['orders'].get('tea') == 3")
OTHERS = check("{k: v for k, v in final_state['orders'].items() if k != 'tea'} == initial_state['orders']")
FORM = (AnswerField(name="count", type="number"),)
ANSWER = check("is_expected(answer, 'count', 3, type='number')")
FRAME = Frame(allowances=(Allowance(path="/orders/tea", values=(3,)),))
"""What the usual reference changes, and to what."""
UNPINNED = Frame(allowances=(Allowance(path="/orders/tea"),))
"""The same as the last version kept it: where, but not to what."""
ORDER = ReferenceCall(tool="order", arguments={"item": "tea", "count": 3})


def program() -> Program:
    return Program(source=SOURCE, class_name="Shop", tools=TOOLS)


def reference(*calls: ReferenceCall, answer: str = '{"count": 3}') -> Reference:
    return Reference(calls=calls or (ReferenceCall(tool="look"), ORDER), answer=answer)


def subject(*checks: str, **changes: Any) -> Subject:
    """Ordering three teas, judged by `checks` (by default a sound verifier); framed as the usual reference spans it."""
    fields: dict[str, Any] = {
        "program": program(),
        "initial": encode_state(INITIAL),
        "checks": checks or (TEA, OTHERS, ANSWER),
        "answer_form": FORM,
        "reference": reference(),
        "frame": None if "reference" in changes else FRAME,
    }
    return Subject(**nest_verifier(fields | changes))
