"""What a check reads, told from its source: too much costs processes, too little would share a verdict wrongly."""

from __future__ import annotations

import pytest

from synthesis.contracts import ScriptVerifier
from synthesis.verifiers.check_reads import CheckReads, find_check_reads, reads_answer


def body(says: str, parameters: str = "initial_state, final_state, answer", before: str = "") -> str:
    return f"{before}def check({parameters}):\n    {says}\n"


NAMES = "names = ('a', 'b'); return all(final_state[name] == initial_state[name] for name in names)"
REST = "kept = ('a', 'b'); return all(final_state[k] == v for k, v in initial_state.items() if k not in kept)"
HELPER = "def count(state): return len(state['a'])\n    return count(final_state) > count(initial_state)"
SOME: dict[str, tuple[tuple[str, ...], ...]] = {
    body("return final_state['a'] == 1"): (("a",),),
    body("return final_state['a']['b'].get('c', {}).get('d') == 1"): (("a", "b", "c", "d"),),
    body("return final_state['a'][0]['x'] == final_state.get('b')"): (("a",), ("b",)),
    body("return 'a' in final_state and 'b' not in final_state"): (("a",), ("b",)),
    body("return any(row['id'] == 1 for row in final_state['a'].values())"): (("a",),),
    body("return b['n'] == 2 and a['k'] == 1", "a, b"): (("k",), ("n",)),
    body("return x['n'] == 2", "x"): (("n",),),
    body("return initial_state == {}"): (),
    body(NAMES): (("a",), ("b",)),
    body(HELPER): (("a",),),
    body("return total(final_state['a']) == 1", before="def total(rows):\n    return sum(rows)\n"): (("a",),),
}
WHOLE = [
    body("return final_state == initial_state"),
    body("return len(final_state) == 1"),
    body("return final_state[answer] == 1"),
    body("final_state['a'] = 1; return True"),
    body("s = final_state; return s['a'] == 1"),
    body("return [key for key in final_state] == []"),
    body("return final_state.get(key='a') == 1"),
    body("return final_state.pop('a') == 1"),
    body("return any(final_state[name] for name in answer.split())"),
    body("names = ('a',); names = ('b',); return any(final_state[name] for name in names)"),
    body("names = ['a']; names.append('b'); return any(final_state[name] for name in names)"),
    body("return all(final_state[k] == v for k, v in initial_state.items())", "x, initial_state"),
    body("return initial_state == {}", "x, initial_state"),
    body("def seen(s, t): return s == t\n    return seen(final_state, 1)"),
    body("def seen(*s): return s == ()\n    return seen(final_state)"),
    body("import sys; return bool(final_state['a'])"),
    body("return bool(final_state['a']) and check.__globals__"),
    body("return '{0.gi_frame.f_locals}'.format(i for i in ()) == final_state['a']"),
    body("match (i for i in ()):\n        case object(gi_frame=f): return f != final_state['a']"),
    "def check(",
    "x = 1",
]


@pytest.mark.parametrize("source", SOME)
def test_places_that_the_source_writes_down(source: str) -> None:
    assert find_check_reads(source) == CheckReads(False, SOME[source])


@pytest.mark.parametrize("source", WHOLE)
def test_any_other_use_is_the_whole_state(source: str) -> None:
    assert find_check_reads(source).places is None


def test_a_loop_over_the_initial_state_leaves_out_what_it_says() -> None:
    assert find_check_reads(body(REST)) == CheckReads(False, (), frozenset("ab"))
    plain = body("return all(final_state[name] == initial_state[name] for name in initial_state)")
    assert find_check_reads(plain) == CheckReads(False, (), frozenset())
    assert find_check_reads(body(REST.replace("not in", "!="))) == CheckReads(False, (), frozenset())


def test_the_answer_is_read_by_its_name_or_in_third_place() -> None:
    assert find_check_reads(body("return answer == ''")) == CheckReads(True, ())
    assert find_check_reads(body("return said == b['a']", "a, b, said")).answer
    assert not find_check_reads(body("return final_state['a'] == 1")).answer


def test_an_assertion_reads_the_answer_if_its_script_does() -> None:
    def script(text: str) -> str:
        source = f"def verify(told, expected, initial_state, final_state):\n    return {{'done': {text}}}\n"
        return ScriptVerifier(source=source, assertions=("done",)).checks[0].source

    assert reads_answer(script("told['a'] == expected['a']"))
    assert not reads_answer(script("final_state['a'] == initial_state['a']"))
