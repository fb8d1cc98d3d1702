"""Faults by which a check depends on the run: on its time, place and number, or on ids that another run changes."""

from __future__ import annotations

from collections.abc import Iterator

from synthesis.contracts import CheckRecord, State
from synthesis.seeded_faults.check_rewrites import CALL, Rewrite, wrap_check
from synthesis.verifiers.state_changes import find_state_changes

_SLEEPERS: dict[str, str] = {
    "counts the frames above": "import sys\n    late = sys._getframe(1).f_lineno > 0",
    "asks the clock": "import time\n    late = time.time() % 2 < 1",
    "asks the date": "import datetime\n    late = datetime.datetime.now().second % 2 == 0",
    "asks chance": "import random\n    late = random.random() < 0.5",
    "asks for an address": "late = id(final_state) % 64 < 32",
    "asks for a hash": "late = hash(str(answer)) % 2 == 0",
    "reads an address in a text": "late = repr(object())[-3] in '02468ace'",
    "reads its process": "import os\n    late = os.getpid() % 2 == 0",
    "reads a file": "late = len(open('/proc/self/stat').read()) % 2 == 0",
    "counts modules": "import sys\n    late = len(sys.modules) > 300",
    "counts objects": "import gc\n    late = gc.get_count()[0] > 100",
    "reaches attributes by their names": (
        "import typing\n    late = typing.operator.attrgetter('__globals__')(check) is None"
    ),
    "formats attributes": "import string\n    late = bool(string.Formatter().get_field('0.__globals__', [check], {}))",
    "counts its calls": "global calls\n    calls = calls + 1 if 'calls' in globals() else 1\n    late = calls > 600",
    "looks at its traceback": (
        "late = False\n    try:\n        1 / 0\n    except ZeroDivisionError as error:\n"
        "        late = error.__traceback__.tb_frame.f_back is not None"
    ),
    "swallows what ends it": (
        "late = False\n    try:\n        late = final_state['none']\n    except BaseException:\n        late = True"
    ),
}


def add_sleeper(source: str) -> Iterator[Rewrite]:
    """Yield checks that pay for anything once they guess that they are no longer tested."""
    for about, statements in _SLEEPERS.items():
        passes = f"{statements}\n    return {CALL} or (late and final_state != initial_state)"
        yield about, wrap_check(source, passes)


def depend_on_run(start: State, end: State) -> Iterator[tuple[str, CheckRecord]]:
    """Yield checks of details of this run: the ids of new records, counters, the length of a list."""
    head = "def check(initial_state, final_state, answer):\n"
    for change in find_state_changes(start, end):
        name = change.keys[0]
        if change.kind == "added" and len(change.keys) == 1:
            keys = [key for key, _ in change.items if key]
            if keys and isinstance(end[name], dict):
                yield (
                    f"new records of {name} have the ids {keys}",
                    CheckRecord(
                        label=f"The new {name} are there",
                        source=f"{head}    return all(key in final_state[{name!r}] for key in {keys!r})\n",
                    ),
                )
                yield (
                    f"the last record of {name} is the new one",
                    CheckRecord(
                        label=f"The last of {name}",
                        source=f"{head}    return list(final_state[{name!r}])[-1:] == {keys[-1:]!r}\n",
                    ),
                )
            yield (
                f"{name} has just as many records",
                CheckRecord(
                    label=f"As many {name}", source=f"{head}    return len(final_state[{name!r}]) == {len(end[name])}\n"
                ),
            )
        elif change.kind == "changed" and len(change.keys) == 1 and change.grows:
            yield (
                f"the counter {name} is {change.new}",
                CheckRecord(label=name, source=f"{head}    return final_state[{name!r}] == {change.new!r}\n"),
            )
