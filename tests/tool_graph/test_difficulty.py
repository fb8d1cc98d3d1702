"""What makes a task difficult, counted from a blueprint and from a solution script."""

from __future__ import annotations

from synthesis.contracts import Blueprint, BlueprintNode, Difficulty, ReferenceCall, StepKind

SCRIPT = """
def solve(call):
    total = 0
    late = []
    for row in call("list_loans"):
        if row["open"] and row["late"]:
            for fine in row["fines"]:
                total += fine
        late += [row["id"]]
    kept = [name for name in sorted(late) if name if name != "L-1"]
    first = min(late) if late else min("a", "b")
    return {"total": total, "count": len(kept), "first": first}
"""


def _chain(
    tools: tuple[str, ...], steps: tuple[StepKind, ...] = (), walks: tuple[tuple[str, ...], ...] = ()
) -> Blueprint:
    nodes = [BlueprintNode(id=f"t{number}", kind="tool", tool=tool) for number, tool in enumerate(tools, 1)]
    return Blueprint(nodes=tuple(nodes), steps=steps, walks=walks)


def test_a_chain_has_the_shares_of_its_steps_and_a_merged_blueprint_the_longest_of_its_walks() -> None:
    chain = Difficulty.from_blueprint(_chain(("a", "b", "a", "c", "d"), ("strong", "weak", "independent", "weak")))
    merged = Difficulty.from_blueprint(_chain(("a", "b", "c"), walks=(("a", "b"), ("b", "c", "d"))))
    assert chain == Difficulty(
        walk_steps=5, weak_share=0.5, independent_share=0.25, unique_tools=4, invocations=5, branches=None
    )
    assert merged == Difficulty(walk_steps=3, unique_tools=3, invocations=3)


def test_a_script_has_its_branches_and_aggregations_and_its_calls_their_tools() -> None:
    calls = [ReferenceCall(tool="list_loans"), ReferenceCall(tool="read_loan"), ReferenceCall(tool="read_loan")]
    found = Difficulty.from_script(SCRIPT, calls)
    assert (found.unique_tools, found.invocations) == (2, 3)
    assert found.branches == 4, "an `if`, a conditional expression and two conditions of a comprehension"
    assert found.aggregations == 5, "two totals, `sorted`, the `min` of one collection, and `len`"
    assert Difficulty.from_script("def solve(", calls) == Difficulty(unique_tools=2, invocations=3)
