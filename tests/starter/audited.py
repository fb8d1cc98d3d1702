"""The audits of all bundled tasks, and a record of what they rested on when all of them were green.

    python -m tests.starter.audited

audits every task, as `test_audited.py` does, and writes `audited.json`: a digest of the bundled environments and of all
code that an audit runs. While that is as it was, a landing audits some of the tasks again; else all of them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from synthesis.formats.records import TaskRecord
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import list_folders, read_environment, read_tasks
from synthesis.starter.record import build_program
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import TaskAudit
from synthesis.verifiers.call_sequences import Subject

ROOT = Path(__file__).resolve().parents[2] / "synthesis"
RESTS_ON = (
    *("collector.py", "drafts.py", "errors.py", "json_reader.py", "json_weight.py", "syntax.py"),
    *("contracts", "formats", "llm", "prompts", "rollout", "runtime", "starter", "verifiers"),
)
"""Files and folders of `synthesis`: all that this module loads, and what runs in the sandbox."""
RECORD = Path(__file__).with_name("audited.json")
TASKS = [(folder, task) for folder in list_folders() for task in read_tasks(folder)]


def digest() -> str:
    """SHA-256, in hex, of the path and the content of each file that an audit rests on."""
    found = hashlib.sha256()
    places = [path for name in RESTS_ON for path in (ROOT / name, *sorted((ROOT / name).rglob("*")))]
    for path in places:
        if path.is_file() and path.suffix != ".pyc":
            found.update(f"{path.relative_to(ROOT)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def is_recorded() -> bool:
    """Whether all tasks were green on just what an audit rests on here."""
    return bool(json.loads(RECORD.read_text(encoding="utf-8")) == {"rests_on": digest(), "green": len(TASKS)})


def audited(sandbox: Sandbox, folder: Path, task: TaskRecord) -> TaskAudit:
    return audit_task(
        sandbox,
        Subject(
            program=build_program(read_environment(folder)),
            initial=encode_state(task.initial_state),
            answer_form=task.answer_form,
            verifier=task.verifier,
            reference=task.reference,
        ),
    )


def require_green(audit: TaskAudit) -> None:
    """Raises AssertionError: it is not, or an altered answer is not among the mutants that it notices."""
    told = [fault.message for fault in audit.faults if fault.kind not in ("check_never_fails", "argument_unaltered")]
    assert told == []
    assert audit.state == "green"
    assert audit.reference is not None
    assert (audit.nothing.reward, audit.reference.reward, audit.deterministic) == (0, 1, True)
    kinds = {one.mutant.kind for one in audit.counted}
    assert {"call_removed", "call_added", "answer_altered"} <= kinds
    assert all(one.probe.reward == 1 for one in audit.mutants if one.mutant.expects == "full")
    assert audit.below == len(audit.counted)


def main() -> None:
    before = digest()
    for folder, task in TASKS:
        print(task.key, file=sys.stderr, flush=True)
        require_green(audited(get_default_sandbox(), folder, task))
    RECORD.write_text(json.dumps({"rests_on": before, "green": len(TASKS)}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
