"""The language of checks: what it refuses, in words that say what to write instead, and all that honest checks need."""

# ruff: noqa: E501
from __future__ import annotations

import ast
import gzip
import json
import marshal
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from synthesis.prompts import get_prompt
from synthesis.runtime import Sandbox, check_request
from synthesis.runtime.check_request import SOURCE_CHARS, find_language_problem
from synthesis.runtime.child.check_names import MODULES
from synthesis.scripted.library import THEMES
from synthesis.starter import list_folders, read_tasks

DATA = os.environ.get("ENVARIUM_TEST_DATA", "")


def body(*lines: str) -> str:
    return "def check(initial_state, final_state, answer):\n" + "".join(f"    {line}\n" for line in lines)


REFUSED = {
    # Frames, tracebacks, code.
    body("import sys", "return sys._getframe().f_back is None"): "line 2: the module 'sys'",
    body("return (i for i in ()).gi_frame.f_back is None"): "`.gi_frame` leads behind the data",
    body("return check.__code__.co_filename == ''"): "`.__code__`",
    body("try:", "    x = 1 / 0", "except Exception as error:", "    return error.__traceback__.tb_frame"): "`.__traceback__`",
    body("try:", "    x = 1 / 0", "except Exception as error:", "    error = error.with_traceback(None)"): "`.with_traceback`",
    body("import inspect", "return bool(inspect.stack())"): "the module 'inspect'",
    body("import traceback"): "the module 'traceback'",
    body("return {}.get('x', (i for i in ())).gi_code.co_name"): "`.gi_code`",
    # Names that reach the interpreter.
    body("return __builtins__['open']"): "the name `__builtins__`",
    body("return globals()['final_state'] == {}"): "`globals` is not in the language",
    body("return eval('final_state') == {}"): "`eval`",
    body("exec('x = 1')"): "`exec`",
    body("return vars(answer)"): "`vars`",
    body("return dir(answer) == []"): "`dir`",
    body("return id(answer) % 2 == 0"): "`id`",
    body("return hash(answer) % 2 == 0"): "`hash`",
    body("return open('/proc/self/stat').read()"): "`open`",
    body("return ().__class__.__base__.__subclasses__()"): "`.__class__`",
    body("return int.mro()"): "`.mro`",
    body("__x = 1"): "the name `__x`",
    body("def inner(__x): return __x", "return inner(1)"): "the name `__x`",
    # Texts that reach attributes.
    body("return getattr(check, '_' + '_globals__')"): "`getattr` takes a name that is written down",
    body("return getattr(check, '__globals__')"): "`.__globals__`",
    body("read = getattr", "return read(check, '__globals__')"): "`getattr` can only be called",
    body("return list(map(getattr, [check], ['__code__']))"): "`getattr` can only be called",
    body("return hasattr(check, answer)"): "`hasattr` takes a name",
    body("return '{0.__globals__}'.format(check)"): "`.format`; write an f-string",
    body("return '{a.__globals__}'.format_map({'a': check})"): "`.format_map`",
    body("return list(map(str.format, ['{0.__globals__}'], [check]))"): "`.format`",
    body("import string", "return string.Formatter().get_field('0.__globals__', [check], {})"): "line 3: `Formatter` of string",
    body("from string import Formatter"): "`Formatter` of string",
    body("import typing", "return typing.operator.attrgetter('__globals__')(check)"): "line 3: `operator` of typing",
    body("import operator as o", "return o.attrgetter('__globals__')(check)"): "line 3: `attrgetter` of operator",
    body("import re", "return bool(re.functools)"): "`functools` of re",
    body("import collections.abc", "return bool(collections.abc.sys)"): "`sys` of collections.abc",
    body("from typing import operator"): "`operator` of typing",
    body("from operator import attrgetter"): "`attrgetter` of operator",
    body("from operator import methodcaller"): "`methodcaller` of operator",
    body("from typing import get_type_hints"): "`get_type_hints` of typing",
    body("from collections import namedtuple"): "`namedtuple` of collections",
    # Ways to swallow a doubt, the end of memory or an exit.
    body("try:", "    return bool(answer)", "except:", "    return True"): "a bare `except`; name what may be raised",
    body("try:", "    return bool(answer)", "except BaseException:", "    return True"): "`except BaseException`; catch one of",
    body("try:", "    return bool(answer)", "except (KeyError, MemoryError):", "    return True"): "`except MemoryError`",
    body("E = KeyError", "try:", "    return bool(answer)", "except E:", "    return True"): "`except E`",
    body("KeyError = 1", "try:", "    return bool(answer)", "except KeyError:", "    return True"): "`except KeyError`",
    body("try:", "    x = 1", "finally:", "    return True"): "`finally` may swallow",
    body("while True:", "    try:", "        x = 1", "    finally:", "        break"): "`finally` may swallow",
    body("try:", "    return bool(answer)", "except* ValueError:", "    x = 1"): "`TryStar`",
    body("import contextlib", "with contextlib.suppress(BaseException):", "    return True"): "the module 'contextlib'",
    body("with answer:", "    return True"): "`with`; call functions directly",
    body("yield True"): "`yield`",
    body("class Lie:", "    def __eq__(self, other): return True", "return Lie() == 1"): "a class; use functions",
    "import functools\n@functools.lru_cache\ndef check(final_state): return True\n": "a decorator",
    "async def check(final_state): return True\n": "`AsyncFunctionDef`",
    body("match final_state:", "    case {}: return True"): "`match`; use `if`",
    # What would outlast or mark this run.
    body("import json", "json.seen = 1"): "`.seen` is set or deleted",
    body("check.count = 1"): "`.count` is set or deleted",
    body("import re", "return re._cache == {}"): "`._cache`",
    body("import os", "return os.getpid() == 1"): "the module 'os'",
    body("from . import worker"): "the module '.'",
    body("from envbox import worker"): "the module 'envbox'",
    body("from math import *"): "`*` of math",
    body("import os.path"): "the module 'os.path'",
}  # fmt: skip


@pytest.mark.parametrize("source", REFUSED)
def test_what_could_tell_one_run_from_another_is_refused_with_its_line(source: str) -> None:
    problem = find_language_problem(source)
    assert REFUSED[source] in problem
    assert not REFUSED[source] or problem.startswith("line ")


def test_what_a_module_has_beside_its_language_is_not_there_even_by_another_name(sandbox: Sandbox) -> None:
    ways = [
        body("import string as s", "t = s", "return bool(t.Formatter)"),
        body("import typing as s", "return bool([s][0].operator)"),
        body("import re", "re = [re][0]", "return bool(re.functools)"),
        body("import statistics", "return bool(getattr(statistics, 'sys', None))"),
        body("from collections import abc", "return bool(abc.sys)"),
    ]
    for verdict in sandbox.evaluate_checks(ways, {}, {}):
        assert not verdict.passed
        assert verdict.error.startswith("AttributeError: module ") or not verdict.error, verdict


def test_without_the_host_s_look_nothing_is_reached_either(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has no other names, and refuses code that names what leads to frames and to the interpreter."""
    monkeypatch.setattr(
        check_request, "_compile_or_refuse", lambda source: ("", marshal.dumps(compile(source, "<check>", "exec")))
    )
    reaching = [
        source for source in REFUSED if not any(word in source for word in ("except", "finally", "import *", "match "))
    ]
    assert len(reaching) > 45
    for source, verdict in zip(reaching, sandbox.evaluate_checks(reaching, {}, {}), strict=True):
        assert not verdict.passed, source
    told = sandbox.evaluate_checks([body("return ().__class__"), body("return bool((i for i in ()).gi_frame)")], {}, {})
    assert all(verdict.error.startswith("OutsideLanguage: the name `") for verdict in told), told


ALLOWED = [
    body("import re, json, math", "return re.sub('a', 'b', json.loads('\"a\"')) == 'b' and math.isclose(1.0, 1)"),
    body("from datetime import datetime as d, timedelta", "return (d(2025, 1, 1) + timedelta(days=1)).strftime('%d') == '02'"),
    body("import string, statistics", "def join(string): return string.strip()", "statistics = final_state", "return join(' a') == 'a' and statistics.items() is not None"),
    body("import datetime", "return datetime.datetime.strptime('2025', '%Y').year == 2025"),
    body("from collections.abc import Mapping", "import collections.abc", "return isinstance({}, Mapping) and isinstance([], collections.abc.Sequence)"),
    body("from collections import Counter, defaultdict", "rows = defaultdict(list); rows['a'].append(1)", "return Counter('aab').most_common(1) == [('a', 2)] and rows == {'a': [1]}"),
    body("try:", "    return final_state['absent']", "except (KeyError, ValueError) as error:", "    return str(error) == \"'absent'\""),
    body("try:", "    return int('x') == 1", "except Exception:", "    return True"),
    body("import json", "try:", "    return json.loads('{')", "except json.JSONDecodeError:", "    return True"),
    body("missing = object()", "return final_state.get('k', missing) is missing and type(answer) is str"),
    body("print('looking')", "return getattr(final_state, 'format_', None) is None and not hasattr(answer, 'n')"),
    body("type = 3; id = 4; vars = [type, id]", "return f'{sum(vars):03d} {answer!r}' == \"007 ''\""),
    body("total = 0", "for n in range(5):", "    if n == 3: continue", "    total += n", "while total > 7: total -= 1; break", "return (n := total) == 7 and (lambda x: x == 7)(n)"),
    body("def deep(value, *rest, key=None, **more):", "    nonlocal count", "    count += 1", "    return value", "count = 0", "deep(1, 2, key=3, other=4)", "assert count == 1", "return count == 1"),
    "from __future__ import annotations\nimport typing\ndef check(final_state: typing.Dict[str, 'x'], answer: str | None = None) -> bool:\n    return True\n",
    "NAMES: list[str] = ['a']\ncheck = lambda final_state: NAMES == ['a'] and final_state == {}\n",
]  # fmt: skip


def test_what_honest_checks_need_is_there(sandbox: Sandbox) -> None:
    for source, verdict in zip(ALLOWED, sandbox.evaluate_checks(ALLOWED, {}, {}), strict=True):
        assert verdict.passed, (source, find_language_problem(source), verdict)


def test_every_name_of_every_module_is_there(sandbox: Sandbox) -> None:
    lines = [
        f"from {module} import {', '.join(sorted(names))}"
        for module, names in MODULES.items()
        if module != "__future__"
    ]
    (verdict,) = sandbox.evaluate_checks([body(*lines, "return True")], {}, {})
    assert verdict.passed, verdict


def test_authors_are_told_every_module() -> None:
    listed = get_prompt("tasks", "check").text.partition("Modules, imported inside: ")[2].partition(". One function")[0]
    assert listed.split(", ") == [name for name in MODULES if not name.startswith("_")]


def test_no_try_catches_the_end_of_memory(sandbox: Sandbox) -> None:
    """How much there is left would be a measure of what came before."""
    source = body("try:", "    kept = [0] * (10 ** 10)", "except Exception:", "    return True", "return True")
    (verdict,) = sandbox.evaluate_checks([source], {}, {})
    assert verdict.error.startswith("stopped (memory)")


def test_source_that_is_too_long_or_too_deep_is_refused_and_harms_nobody() -> None:
    assert "at most 100,000" in find_language_problem("#" * (SOURCE_CHARS + 1))
    assert find_language_problem("x = " + "(" * 5_000 + ")" * 5_000)
    assert find_language_problem("x = " + "-" * 20_000 + "1")
    assert find_language_problem("def check(")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def _functions(text: str) -> Iterator[str]:
    """The check functions of a text: source, or a reply with source between fences."""
    for part in text.split("```")[1::2] or [text]:
        source = part.removeprefix("python")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        if any(name.startswith("check") for name in names):
            yield source


def test_bundled_checks_are_inside() -> None:
    sources = [
        check.source for folder in list_folders() for task in read_tasks(folder) for check in task.verifier.checks
    ]
    for path in THEMES.glob("*/checks.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        sources += [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert len(sources) > 500
    assert {source: find_language_problem(source) for source in sources if find_language_problem(source)} == {}


@pytest.mark.skipif(not DATA, reason="ENVARIUM_TEST_DATA does not name the folder of the real data")
def test_real_checks_are_inside() -> None:
    """Those of EnvScaler, and those that models wrote in recorded batches."""
    read = [json.loads(path.read_text(encoding="utf-8")) for path in Path(DATA).glob("envscaler/*.json")]
    for path in Path(DATA).glob("recorded_batch*/calls.jsonl.gz"):
        read += map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    sources = {source for value in read for text in _texts(value) if "def check" in text for source in _functions(text)}
    assert len(sources) > 1_200
    assert {source: find_language_problem(source) for source in sources if find_language_problem(source)} == {}
