"""A file handed in at the wrong place says where it belongs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from synthesis.errors import FormatError
from synthesis.formats.envscaler import environment, scenario
from synthesis.formats.envscaler_runs import run
from synthesis.formats.files import Entry


@pytest.mark.parametrize(
    ("parse", "record", "hint"),
    [
        (environment, {"env_id": "e", "init_config": {}, "task": "t"}, "a scenario?"),
        (environment, {"task_info": {}, "messages": []}, "a recorded run?"),
        (scenario, {"env_id": "e", "env_class_code": "class A: pass"}, "an environment?"),
        (run, {"env_id": "e", "init_config": {}}, "no recorded run"),
    ],
)
def test_the_reason_names_the_right_place(parse: Callable[[Entry], Any], record: dict[str, Any], hint: str) -> None:
    with pytest.raises(FormatError, match=re.escape(hint)):
        parse(Entry("[0]", record))
