"""No run of a check can be told from another: neither the first from the 5,000th, nor an audit from a score."""

# ruff: noqa: E501
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from synthesis.contracts import Limits, Program, State, Tool, Verdict
from synthesis.rollout.shared_verdicts import SharedVerdicts
from synthesis.runtime import Sandbox
from synthesis.verifiers import trace_checks
from synthesis.verifiers.check_table import build_verdict_table
from tests.verifier_fields import score_checks

WAYS = (
    "str(lambda: 0)", "str(i for i in ())", "str(object())", "repr(final_state.get)", "f'{map(str, [])!r}'",
    "'%s' % (zip([], []),)", "ascii(filter(None, []))", "f'{enumerate([])}'", "str(reversed([]))", "str(iter({}))",
    "str(inner)", "str(outer(1))", "str([inner, {inner: 1}])", "str({inner, outer, len, None, True, 0.5})",
    "list(set(range(3_000)) | {inner, outer, None})[:40]", "str(set(map(str, range(50))))",
    "sorted([inner, outer, object(), print], key=str)[0] is inner", "min(inner, outer, key=repr) is inner",
    "str(re), str(json), str(datetime)", "str(re.compile('a')), str(re.match)", "str(print), str(type), str(len)",
    "str(datetime.datetime.now())", "str(datetime.date.today())", "datetime.datetime.now().astimezone().strftime('%c %Z')",
    "str(datetime.datetime.strptime('2025', '%Y'))", "failure(lambda: {}[inner])", "failure(lambda: [].index(inner))",
    "failure(lambda: [].remove(object()))", "failure(lambda: int(inner))", "failure(lambda: json.dumps(inner))",
    "failure(lambda: int('9' * 5_000))", "failure(lambda: inner(1, 2, 3))", "failure(lambda: final_state.absent)",
    "depth(0)", "json.dumps([inner], default=str)", "re.sub('a', lambda found: str(found), 'a')",
    "[x is y for x, y in zip((0, 257, '', 'a', ()), (0, int('257'), str(), 'ab'[0], tuple([])))]",
    "str(final_state), str(initial_state), str(answer), sorted(final_state)", "str(copy.deepcopy([inner]))",
    "str(functools.partial(inner, 1))", "str(itertools.count()), str(itertools.groupby([]))", "str(hashlib.sha256())",
    "str(collections.Counter([inner]).most_common(1))", "str(decimal.Decimal(1) / 3), str(0.1 + 0.2), str(1 / 3)",
)  # fmt: skip
"""Ways to find something that another run may not have: addresses and orders, times, failures, depths, identities."""
HOSTILE = """
import collections, copy, datetime, decimal, functools, hashlib, itertools, json, re

def check(initial_state, final_state, answer):
    def inner(*given): return given[0].absent
    def outer(value): return lambda: value
    def failure(act):
        try: return str(act())
        except Exception as error: return str(error)
    def depth(n):
        try: return depth(n + 1)
        except Exception: return n
    seen = [WAYS]
    # As digests: addresses are left out of the texts of errors.
    raise ValueError(" ".join(hashlib.sha256(str(way).encode()).hexdigest()[:12] for way in seen))
""".replace("WAYS", ", ".join(f"({way})" for way in WAYS))
START: State = {"n": 1, "orders": {"tea": 2}}
END: State = {"n": 2, "orders": {"tea": 3}}
SIMPLE = "def check(initial_state, final_state, answer):\n    return final_state['n'] == 2\n"


def scored(sandbox: Sandbox) -> Verdict:
    return score_checks(sandbox, [HOSTILE], START, END, answer="yes", rule="goals", marks=["goal"]).verdicts[0]


def audited(sandbox: Sandbox) -> Verdict:
    return build_verdict_table(sandbox, [SIMPLE, HOSTILE], START, [(START, ""), (END, "yes"), (START, "no")])[1][1]


def replayed(sandbox: Sandbox) -> Verdict:
    """As in a replay's matrix and in a playground."""
    patch = [{"op": "replace", "path": "/n", "value": 2}, {"op": "replace", "path": "/orders/tea", "value": 3}]
    return trace_checks(sandbox, [HOSTILE], START, [patch], answer="yes")[0][1]


def trained_on(sandbox: Sandbox) -> Verdict:
    """As the attempts of a training step are judged."""
    return SharedVerdicts(sandbox).evaluate_checks([HOSTILE, SIMPLE], START, END, answer="yes")[0]


PLACES: tuple[Callable[[Sandbox], Verdict], ...] = (scored, audited, replayed, trained_on)


@pytest.fixture
def own() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.close()


def run(sandbox: Sandbox, times: int) -> None:
    for _ in range(times // 50):
        assert all(verdict.passed for verdict in sandbox.evaluate_checks([SIMPLE] * 50, START, END))


def test_forty_ways_do_not_tell_runs_apart(own: Sandbox, sandbox: Sandbox) -> None:
    assert len(WAYS) >= 40
    first = scored(own)
    assert first.error.startswith("ValueError: "), first
    assert len(first.error.split()) == len(WAYS) + 1
    assert [place(own) for place in PLACES] == [first] * len(PLACES)
    assert [place(sandbox) for place in PLACES] == [first] * len(PLACES), "in another sandbox, used before"
    run(own, 600)
    assert [place(own) for place in PLACES] == [first] * len(PLACES), "after 600"


def test_a_sandbox_that_starts_when_many_files_are_open_is_no_other(own: Sandbox) -> None:
    """The number of its socket was one of its arguments, and lay elsewhere in memory if it had more digits."""
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]
    busy = Sandbox()
    try:
        assert scored(busy) == scored(own)
    finally:
        busy.close()
        for file in files:
            os.close(file)


def test_a_sandbox_that_writes_bytecode_is_no_other(
    own: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one on a machine compiles what others read: modules lay elsewhere in its memory."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    first = scored(own)
    kept = sorted(tmp_path.rglob("*.pyc"))
    assert len(kept) > 50
    for removed in ([], kept[:1], kept[::3]):
        for path in removed:
            path.unlink()
        after = Sandbox()
        try:
            assert scored(after) == first, f"after {len(removed)} files of bytecode were removed"
        finally:
            after.close()


@pytest.mark.slow
def test_nor_the_first_from_the_five_thousandth(own: Sandbox) -> None:
    first = scored(own)
    run(own, 5_000)
    assert [place(own) for place in PLACES] == [first] * len(PLACES)


LOOKING = '''
import io, logging, sys, traceback, types

def stack():
    frame, seen = sys._getframe(1), []
    while frame:
        seen.append([frame.f_code.co_name, frame.f_code.co_filename, sorted(frame.f_locals), sorted(frame.f_globals)])
        frame = frame.f_back
    return seen

class Env:
    def __init__(self, init_config: dict):
        self.made_by = [name for _, name, _, _ in stack()]

    def frames(self) -> list:
        """Say what stands below."""
        return stack()

    def shown(self) -> "Shown":
        """Give something that looks round while it is encoded."""
        class Shown:
            @property
            def __dict__(self):
                return {"below": [name for _, name, _, _ in stack()]}
        return Shown()

    def host(self) -> list:
        """Say what is known of the host."""
        said = io.StringIO()
        logging.getLogger().addHandler(logging.StreamHandler(said))
        logging.getLogger().handlers[-1].setFormatter(logging.Formatter("%(pathname)s %(funcName)s"))
        logging.warning("here")
        try:
            sys.modules["json"].loads("{")
        except ValueError:
            text = traceback.format_exc()
        named = [sys.argv, sys.orig_argv, sys.path, sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix]
        return [text, "".join(traceback.format_stack()), said.getvalue(), named]

    def texts(self, needles: list) -> list:
        """Look through all that can be reached for texts that name a folder of the host."""
        gc, number = sys.modules["gc"], sys.modules["builtins"].id
        seen, found, waiting = {number(needles), *map(number, needles)}, [], [sys.modules, *gc.get_objects()]
        seen.add(number(waiting))
        while waiting:
            value = waiting.pop()
            if number(value) in seen:
                continue
            seen.add(number(value))
            if isinstance(value, (str, bytes)):
                text = value if isinstance(value, str) else value.decode("latin-1")
                found += [text[:200] for needle in needles if needle in text]
            elif isinstance(value, types.CodeType):
                waiting += [value.co_filename, *value.co_consts]
            elif not (isinstance(value, list) and value is needles):
                waiting += gc.get_referents(value)
        return [len(seen) > 20_000, found]

    def memory(self) -> str:
        """Write down everything that can be reached, with its address; what only fills holes is left out."""
        gc, number = sys.modules["gc"], sys.modules["builtins"].id
        gc.unfreeze()
        seen, waiting = {}, [sys.modules, *gc.get_objects()]
        own = number(seen), number(waiting)
        while waiting:
            value = waiting.pop()
            if number(value) not in seen and number(value) not in own:
                seen[number(value)] = value
                if not isinstance(value, (str, bytes, int, float, types.CodeType)):
                    waiting += gc.get_referents(value)
        kept = [(at, type(value).__name__, value if isinstance(value, (str, int)) else "") for at, value in seen.items()
                if not isinstance(value, (bytes, float)) and not (type(value) is tuple and value.count(None) == len(value))]
        text = "|".join(sorted(map(repr, kept)))
        return sys.modules["hashlib"].sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
'''
PROGRAM = Program(
    source=LOOKING,
    class_name="Env",
    tools=tuple(Tool(name=name) for name in ("frames", "shown", "host", "texts", "memory")),
)


def asked(sandbox: Sandbox, tool: str, **arguments: Any) -> Any:
    with sandbox.reset(PROGRAM, {}) as episode:
        result = episode.call(tool, arguments)
        assert result.ok, result.error
        return result.result


def test_a_program_sees_no_frames_of_ours(sandbox: Sandbox) -> None:
    own, below = asked(sandbox, "frames")
    assert own[:3] == ["frames", "<program>", ["self"]]
    assert (below[1:]) == ["<sandbox>", ["work"], ["__builtins__"]]
    with sandbox.reset(PROGRAM, {}) as episode:
        assert episode.state()["made_by"] == ["<program>", "<envbox.construct>", "<envbox.worker>", "<sandbox>"]
    shown = asked(sandbox, "shown")["$object"]["attributes"]["below"]
    assert shown[0] == "<program>"
    assert set(shown[1:]) == {"<envbox.codec>", "<envbox.worker>", "<sandbox>"}


def test_nothing_says_where_python_is_installed(own: Sandbox) -> None:
    own.limits = Limits(call_seconds=30)  # one call reads all the memory
    text, stack, logged, named = asked(own, "host")
    assert '  File "<json.decoder>", line ' in text
    assert '  File "<program>", line ' in stack
    assert logged == "<program> host\n"
    assert named == [[""], [], [], "", "", "", ""]
    needles = [sys.prefix, sys.base_prefix + "/lib/py", os.path.dirname(os.__file__), os.getcwd()]
    assert asked(own, "texts", needles=needles) == [True, []]


def test_the_memory_of_each_process_is_that_of_the_first(own: Sandbox) -> None:
    """Every object that can be reached lies at the same address, with the same value: no count of forks, no pid."""
    own.limits = Limits(call_seconds=30)
    with own.reset(PROGRAM, {}):
        pass
    first = asked(own, "memory")
    assert asked(own, "memory") == first
    run(own, 600)
    assert asked(own, "memory") == first
