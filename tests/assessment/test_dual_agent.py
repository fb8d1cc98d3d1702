"""The dual-agent assessment with scripted agents and the real sandbox."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from synthesis.assessment.cases import rerun_case
from synthesis.assessment.dual_agent import assess_program
from synthesis.assessment.environments import build_view
from synthesis.assessment.prompt_values import FIELDS, format_records, format_value, parse_tables, to_tables
from synthesis.assessment.rounds import AT_ONCE, ROUNDS_A_LINE, UNREAD
from synthesis.assessment.scores import summarize_assessment
from synthesis.drafts import AssessmentDraft
from synthesis.errors import MalformedReply, Rejected
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.runtime import Sandbox, apply_patch
from synthesis.stages import StageSettings
from tests.assessment import support
from tests.assessment.support import SOURCE, Bench, Played, assembled, bench, fences, record

BROKEN = SOURCE.replace('if key not in self.items:\n            return {"success": False, "error": "unknown key"}', "")
BROKEN = BROKEN.replace("del self.items[key]", "self.items.pop(key, None); self.log.append(key)")


def go(made: Bench, **changes: Any) -> AssessmentDraft:
    return asyncio.run(assess_program(made.kit, assembled(**changes)))


def test_a_sound_environment_is_kept_early(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    made = bench(sandbox, threads)
    draft = go(made)
    assert draft.kept
    assert (draft.score, draft.strict, draft.planned) == (1.0, 1.0, 100)
    assert len(draft.cases) == 28, "the first number of rounds at which it is certain, however many run side by side"
    assert (draft.saved, draft.lost, draft.notes) == (72, 0, ())
    assert all(rate.positive and rate.negative for rate in draft.rates)
    assert [rate.tool for rate in draft.rates] == ["add_item", "count_items", "remove_item"]
    assert len(made.tester.seen) == 28
    refused = [case for case in draft.cases if case.error.startswith("bad_arguments")]
    assert refused
    assert {(case.case, case.verdict, case.reason) for case in refused} == {("negative", "pass", UNREAD)}
    assert len(made.checker.seen) == 28 - len(refused), "nothing is open about a call that the schema refused"
    assert [call.site.sample for call in made.author.seen] == [0, 1, 2]
    assert set(draft.prompts) == {"assessment/test_state", "assessment/test_call", "assessment/check_call"}


def test_positive_calls_that_went_through_are_counted(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    def tester(call: StageCall) -> Any:
        asked = json.loads(fences(call)["asked"])
        return {"arguments": {"key": "nobody"}} if asked["tool"] == "remove_item" else support.tester(call)

    draft = go(bench(sandbox, threads, tester=tester, checker=lambda call: {"verdict": "pass", "reason": "Fine."}))
    rates = {rate.tool: rate for rate in draft.rates}
    assert rates["remove_item"].positive_sound == rates["remove_item"].positive > 0
    assert rates["remove_item"].positive_done == 0, "a sound refusal shows nothing of what the tool does"
    assert rates["add_item"].positive_done == rates["add_item"].positive > 0


def test_without_the_sequential_test_all_calls_are_made(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    draft = go(bench(sandbox, threads, sequential=False, assessment_calls=40))
    assert (len(draft.cases), draft.saved, draft.confidence) == (40, 0, None)


def test_the_states_go_on_evolving_side_by_side(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    cases = go(bench(sandbox, threads)).cases
    opened = [case.state["log"] for case in cases[:AT_ONCE]]
    assert opened == [[f"opened {line % 3}"] for line in range(AT_ONCE)]
    for before, after in zip(cases, cases[AT_ONCE:], strict=False):
        assert apply_patch(before.state, list(before.patch)) == after.state
    assert any(case.patch for case in cases)
    keys = [case.result["key"] for case in cases if case.tool == "add_item" and case.result["success"]]
    assert len(keys) == len(set(keys)), "random ids do not come again"


def test_same_replies_give_the_same_assessment(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    first = bench(sandbox, threads)
    draft = go(first)
    again = bench(sandbox, threads, store=first.store)
    assert go(again) == draft
    assert not again.tester.seen
    assert not again.checker.seen
    assert go(bench(sandbox, threads)) == draft


def test_a_tool_that_breaks_its_rule_is_found(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    with pytest.raises(Rejected) as caught:
        go(bench(sandbox, threads), source=BROKEN)
    assert caught.value.reason == "assessment_below_threshold"
    draft = AssessmentDraft.model_validate(caught.value.evidence)
    assert not draft.kept
    assert draft.score < 0.85
    rates = {rate.tool: rate for rate in draft.rates}
    assert rates["remove_item"].failed == rates["remove_item"].negative > 0
    assert rates["remove_item"].negative_sound == 0
    assert rates["add_item"].failed == 0
    assert "stays below 0.85" in str(caught.value)


def test_warnings_count_for_the_score_and_not_for_the_strict_one(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    def checker(call: StageCall) -> Any:
        return support.checker(call) | ({"verdict": "warning"} if call.site.sample % 2 else {})

    made = bench(sandbox, threads, checker=checker)
    draft = go(made)
    assert draft.kept
    assert draft.score == 1.0
    odd = sum(call.site.sample % 2 for call in made.checker.seen)
    assert sum(rate.warned for rate in draft.rates) == odd > 5
    assert draft.strict == (len(draft.cases) - odd) / len(draft.cases)


def test_what_each_agent_sees(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    made = bench(sandbox, threads)
    go(made)
    for call in made.tester.seen:
        words = call.messages[0].content
        assert "def " not in words
        assert "self." not in words
        told = fences(call)
        assert json.loads(told["tool"])["name"] == json.loads(told["asked"])["tool"]
        assert parse_tables(json.loads(told["state"]))["items"]["k9"] == {"name": "brush 9", "count": 9}
        assert "Names are unique." in told["environment"]
        assert not call.tools
    for call in made.checker.seen:
        told = fences(call)
        happened = json.loads(told["call"])
        assert f"def {happened['tool']}" in told["source"]
        assert told["source"].count("def ") == 1
        assert {"case", "arguments", "ok", "patch"} <= set(happened)
        assert happened["expectation"] in ("added or refused", "")
        states = parse_tables(json.loads(told["state"]))
        assert states["after"] == "as before" or happened["patch"]
        assert ("log" in states["before"]) == (happened["tool"] == "remove_item"), "what the tool may read, and no more"
    assert [call.site.sample for call in made.tester.seen] == list(range(28))
    assert {call.site.stage for call in made.checker.seen} == {"check_call"}


def test_cases_run_again_without_a_model(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    draft = go(bench(sandbox, threads))
    program = build_view(record()).program
    assert all(rerun_case(sandbox, program, case).same for case in draft.cases)
    broken = build_view(record(source=BROKEN)).program
    found = {case.tool: rerun_case(sandbox, broken, case) for case in draft.cases if case.case == "negative"}
    assert found["add_item"].same
    assert found["remove_item"].differs == ("result", "patch")
    positive = next(case for case in draft.cases if case.tool == "remove_item" and case.case == "positive")
    assert rerun_case(sandbox, broken, positive).differs == ("patch",)
    gone = build_view(record(source=SOURCE.replace("config.get(", "config.fetch("))).program
    assert rerun_case(sandbox, gone, draft.cases[0]).differs == ("construction",)


@pytest.mark.parametrize(("key", "said"), [("wait", "ended"), ("grow", "too large")])
def test_a_lost_episode_costs_one_call(sandbox: Sandbox, threads: ThreadPoolExecutor, key: str, said: str) -> None:
    """The checker is not asked about it, and the next call starts from the last state."""

    def tester(call: StageCall) -> Any:
        asked = json.loads(fences(call)["asked"])
        if asked["tool"] == "remove_item" and call.site.sample < 6 and asked["case"] == "negative":
            return {"arguments": {"key": key}}
        return support.tester(call)

    made = bench(sandbox, threads, tester=tester, sequential=False, assessment_calls=24)
    made.checker.play = support.checker
    draft, lines = go(made), 24 // ROUNDS_A_LINE
    lost = [number for number, case in enumerate(draft.cases) if case.arguments == {"key": key}]
    assert len(lost) == 1
    case = draft.cases[lost[0]]
    assert case.verdict == "fail"
    assert said in case.reason
    assert draft.cases[lost[0] + lines].state == case.state
    assert lost[0] not in {call.site.sample for call in made.checker.seen}
    unread = sum(case.reason == UNREAD for case in draft.cases)
    assert len(made.checker.seen) == 23 - unread
    assert draft.score == 23 / 24
    assert rerun_case(sandbox, build_view(record()).program, case).same


def test_states_are_constructed_before_they_are_used(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    def author(call: StageCall) -> Any:
        if call.site.sample == 1 and "could not be used" not in call.messages[0].content:
            return {"state": {"items": ["no", "dict"], "log": []}}
        return support.author(call)

    made = bench(sandbox, threads, author=author)
    assert go(made).kept
    assert [call.site.sample for call in made.author.seen] == [0, 1, 2, 1]
    assert "AttributeError" in fences(made.author.seen[3])["problem"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"items": {}, "log": []}, "holds no records"),
        ({"items": {"a": {"name": "x" * 40_000, "count": 1}}}, "at most 32,000"),
        ({"items": {"a": {"name": "x", "count": 1}}, "shelf": {"a": 1}}, "never mentions 'shelf'"),
        (["no object"], "state"),
    ],
)
def test_states_that_cannot_be_used_are_never_kept(
    sandbox: Sandbox, threads: ThreadPoolExecutor, state: Any, reason: str
) -> None:
    with pytest.raises(MalformedReply, match=reason):
        go(bench(sandbox, threads, author=lambda call: {"state": state}))


def test_a_program_that_takes_no_state_is_rejected(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    source = SOURCE.replace('"""Keeps items and how many of each there are."""', "items: dict\n    log: list")
    source = source.replace("def __init__(self, config):", "def __init__(self, config):\n        raise OSError('no')")
    with pytest.raises(Rejected) as caught:
        go(bench(sandbox, threads), source=source)
    assert caught.value.reason == "test_state_invalid"


def test_a_program_that_cannot_go_on_from_its_own_state_is_rejected(
    sandbox: Sandbox, threads: ThreadPoolExecutor
) -> None:
    source = SOURCE.replace('"error": "unknown key"}', '"error": self.log.append("spoilt")}')
    guard = "        assert 'spoilt' not in config.get('log', [])\n"
    source = source.replace("        self.log = list", f"{guard}        self.log = list")
    with pytest.raises(Rejected) as caught:
        go(bench(sandbox, threads), source=source)
    assert caught.value.reason == "state_not_restorable"
    assert "spoilt" in caught.value.evidence["state"]["log"]  # type: ignore[index]


def test_replies_that_cannot_be_used(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    """Of a model that never gives a usable one the first rounds say so, and no more are begun."""
    for name, play in {
        "tester": lambda call: "I'm sorry, I cannot do that.",
        "checker": lambda call: {"verdict": "excellent", "reason": "fine"},
    }.items():
        made = bench(sandbox, threads, **{name: play})
        with pytest.raises(MalformedReply) as caught:
            go(made)
        assert name in str(caught.value)
        assert len(made.tester.seen) <= 9
    large = {"arguments": {"name": "x" * 20_000, "count": 1}}
    with pytest.raises(MalformedReply, match="at most 8,000"):
        go(bench(sandbox, threads, tester=lambda call: large))


def test_an_unusable_reply_costs_a_round(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    def tester(call: StageCall) -> Any:
        return "I'd rather not." if call.site.sample == 4 else support.tester(call)

    def checker(call: StageCall) -> Any:
        return "Looks fine to me!" if call.site.sample == 11 else support.checker(call)

    made = bench(sandbox, threads, tester=tester, checker=checker, sequential=False, assessment_calls=40)
    draft = go(made)
    assert (len(draft.cases), draft.lost, draft.saved) == (38, 2, 0)
    assert draft.score == 1.0
    assert "2 rounds came to nothing" in draft.notes[0]
    assert "checker gave no usable reply" in draft.notes[0]


class Slow(Played):
    """A model whose replies come in another order than they were asked for; counts how many are open at once."""

    open = 0
    most = 0

    async def answer(self, call: StageCall) -> Reply:
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0.002 * (9 - call.site.sample % 8))
        self.open -= 1
        return await super().answer(call)


def test_rounds_run_side_by_side_and_come_out_the_same(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    made = bench(sandbox, threads)
    slow = {"author": Slow(support.author), "tester": Slow(support.tester), "checker": Slow(support.checker)}
    made.kit.asker.models |= slow  # type: ignore[operator]
    draft = go(made)
    assert (slow["author"].most, slow["tester"].most) == (3, AT_ONCE)
    assert slow["checker"].most > 1
    assert draft == go(bench(sandbox, threads)), "no matter in which order the replies came"
    again = bench(sandbox, threads, store=made.store)
    assert go(again) == draft
    assert not again.tester.seen, "every call is found by its key"


def test_a_short_assessment_has_fewer_lines_so_that_its_states_evolve(
    sandbox: Sandbox, threads: ThreadPoolExecutor
) -> None:
    cases = go(bench(sandbox, threads, test_states=1, assessment_calls=12, sequential=False)).cases
    lines = 12 // ROUNDS_A_LINE
    for before, after in zip(cases, cases[lines:], strict=False):
        assert apply_patch(before.state, list(before.patch)) == after.state


def test_an_assessment_says_what_its_calls_do_not_show(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    def tester(call: StageCall) -> Any:
        return support.tester(call) if json.loads(fences(call)["asked"])["case"] == "positive" else {"arguments": {}}

    def at_ease(call: StageCall) -> Any:
        return {"verdict": "pass", "reason": "Fine."}

    source = SOURCE.replace("name: str, count: int", 'name: str = "", count: int = 1')
    source = source.replace('return {"success": False, "error": "exists"}', "pass")
    source = source.replace("key: str", 'key: str = ""')
    source = source.replace(
        "if key not in self.items:", "if not key:\n            return {'success': True}\n        if False:"
    )
    draft = go(bench(sandbox, threads, tester=tester, checker=at_ease), source=source)
    assert draft.notes == ("No call that should be refused was refused: nothing shows that the tools say no.",)
    few = summarize_assessment(draft.cases[:1], [rate.tool for rate in draft.rates], StageSettings())
    assert "Every verdict is a pass, and the calls try 1 of 3 tools." in few.notes


def test_a_person_stops_it_between_two_calls(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    class Stop(Exception):
        pass

    made = bench(sandbox, threads)

    def stop() -> None:
        if len(made.checker.seen) >= 5:
            raise Stop

    object.__setattr__(made.kit, "check_stop", stop)
    with pytest.raises(Stop):
        go(made)
    assert len(made.tester.seen) == 8


def test_an_environment_without_tools_is_rejected(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    with pytest.raises(Rejected) as caught:
        go(bench(sandbox, threads), tools=())
    assert caught.value.reason == "no_tools"


def test_large_values_are_shown_cut_and_stay_json() -> None:
    state = {"rows": {f"r{number}": {"text": "long " * 50, "tags": list(range(40))} for number in range(500)}}
    text = format_value(state, 4_000)
    assert len(text) <= 4_000
    read = json.loads(text)
    assert read["rows"]["r0"]["text"].startswith("long")
    assert "more are not shown" in read["rows"]["…"]
    assert format_value({"a": [1, {"b": None}]}, 100) == '{"a": [1, {"b": null}]}'
    assert "more characters are not shown" in format_value({f"{number:040}": number for number in range(10)}, 30)


def test_records_of_the_same_fields_are_shown_as_tables_that_read_back() -> None:
    rows = {"M-1": {"id": "M-1", "name": "Ada"}, "M-2": {"id": "M-2", "name": None}}
    value = {
        "members": rows,
        "log": [{"day": 1, "who": "M-1"}, {"day": 2, "who": "M-2"}],
        "mixed": {"a": {"x": 1, "y": 2}, "b": {"x": 1}},
        "one": {"a": {"x": 1, "y": 2}},
        "nested": {"a": {"x": rows, "y": []}, "b": {"x": rows, "y": [1]}},
        "sets": {"a": {"$set": [1], "n": 1}, "b": {"$set": [2], "n": 1}},
        "hostile": {FIELDS: {"x": 1, "y": 2}, "b": {"x": 1, "y": 2}},
    }
    table = to_tables(value)
    assert table["members"] == {FIELDS: ["id", "name"], "M-1": ["M-1", "Ada"], "M-2": ["M-2", None]}
    assert table["log"] == [{FIELDS: ["day", "who"]}, [1, "M-1"], [2, "M-2"]]
    assert {name: table[name] for name in ("mixed", "one", "sets", "hostile")} == {
        name: value[name] for name in ("mixed", "one", "sets", "hostile")
    }
    assert parse_tables(table) == value
    many = {"members": {f"M-{number}": {"id": number, "name": "x" * 20} for number in range(900)}}
    read = parse_tables(json.loads(format_records(many, 3_000)))
    assert read["members"]["…"].endswith("more are not shown")
    assert read["members"]["M-0"] == {"id": 0, "name": "x" * 20}
    noted = {
        "members": {**rows, "…": "7 more are not shown"},
        "log": [{"a": 1, "b": 2}] * 2 + ["… 3 more are not shown"],
    }
    assert parse_tables(to_tables(noted)) == noted
