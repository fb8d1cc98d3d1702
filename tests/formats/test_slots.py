"""A file handed in at the wrong place says where it belongs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from synthesis.errors import FormatError
from synthesis.formats.envscaler import read_environment, read_scenario
from synthesis.formats.envscaler_runs import read_run
from synthesis.formats.files import Entry


@pytest.mark.parametrize(
    ("parse", "record", "hint"),
    [
        (read_environment, {"env_id": "e", "init_config": {}, "task": "t"}, "a scenario?"),
        (read_environment, {"task_info": {}, "messages": []}, "a recorded run?"),
        (read_scenario, {"env_id": "e", "env_class_code": "class A: pass"}, "an environment?"),
        (read_run, {"env_id": "e", "init_config": {}}, "no recorded run"),
    ],
)
def test_the_reason_names_the_right_place(parse: Callable[[Entry], Any], record: dict[str, Any], hint: str) -> None:
    with pytest.raises(FormatError, match=re.escape(hint)):
        parse(Entry("[0]", record))


def test_a_task_has_criteria_or_checks() -> None:
    fact = {"text": "The total is right.", "dimension": "tolerance", "field": "total"}
    record = {
        "env_id": "e", "task_id": "t", "task": "Pay.", "init_config": {}, "criteria": ["It is paid.", fact],
        "answer_form": [{"name": "total", "type": "money"}], "expected_answer": {"total": 5.9},
    }  # fmt: skip
    read = read_scenario(Entry("[0]", record))
    assert [one.record for one in read.verifier.criteria] == record["criteria"]
    assert read.verifier.checks == ()
    both = record | {"checklist_with_func": [{"check_item": "x", "check_func": "def check():\n    return True\n"}]}
    with pytest.raises(FormatError, match="criteria or checks"):
        read_scenario(Entry("[0]", both))
    with pytest.raises(FormatError, match="no field"):
        read_scenario(Entry("[0]", record | {"answer_form": [], "expected_answer": {}}))
