"""Bundled tasks are yardsticks: an audit is green, and an altered answer is among the mutants that it notices.

`make test` audits two, `.ci/run` the hardest of each environment besides; all, where anything that an audit rests on is
not as it was when all were green (`audited.py`).
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.starter import list_folders, read_tasks
from tests.starter.audited import RECORD, RESTS_ON, ROOT, TASKS, audited, digest, is_recorded, require_green

QUICK = {read_tasks(folder)[0].key for folder in (list_folders()[0], list_folders()[-1])}
HARDEST = {read_tasks(folder)[-1].key for folder in list_folders()}
KNOWN = is_recorded()
ASKED = [task for task in TASKS if task[1].key in QUICK | HARDEST or not KNOWN]


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


@pytest.mark.parametrize(
    ("folder", "task"),
    [pytest.param(*one, id=one[1].key, marks=[] if one[1].key in QUICK else [pytest.mark.slow]) for one in ASKED],
)
def test_the_audit_is_green(sandbox, folder, task):
    require_green(audited(sandbox, folder, task))


def test_all_tasks_are_audited_where_one_file_is_another(monkeypatch, tmp_path):
    assert len(TASKS) == 50
    for name in ("runtime", "verifiers"):
        (tmp_path / name).mkdir()
    (tmp_path / "syntax.py").write_text("")
    monkeypatch.setattr("tests.starter.audited.ROOT", tmp_path)
    monkeypatch.setattr("tests.starter.audited.RECORD", tmp_path / RECORD.name)
    (tmp_path / RECORD.name).write_text(f'{{"rests_on": "{digest()}", "green": {len(TASKS)}}}')
    assert is_recorded()
    (tmp_path / "verifiers" / "mutants.py").write_text("MOST = 1\n")
    assert not is_recorded()
    (tmp_path / RECORD.name).write_text(f'{{"rests_on": "{digest()}", "green": {len(TASKS) - 1}}}')
    assert not is_recorded(), "of fewer tasks than there are now"


def test_what_an_audit_loads_is_what_it_rests_on():
    code = "import sys, tests.starter.audited; print(*(name for name in sys.modules if name.startswith('synthesis.')))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT.parent, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(loaded) > 50
    rooms = {name.removesuffix(".py") for name in RESTS_ON}
    assert [name for name in loaded if name.split(".")[1] not in rooms] == []
