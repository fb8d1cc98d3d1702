"""One environment's way in: read it, probe it in the sandbox, store it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synthesis.assessment.environments import read_findings, view_of
from synthesis.assessment.probe import probe_findings
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox, encode_state
from webapp.content_store import Saved
from webapp.environments.models import Version
from webapp.environments.services import find_kept_beside, find_unchanged, replace_findings, save_environment


def import_environment(
    sandbox: Sandbox, record: EnvironmentRecord, source: str, states: Sequence[dict[str, Any]] = ()
) -> tuple[Saved, Version]:
    """Store a record with what is wrong with it. `states` are plain initial states; the first is probed with.

    Probing happens before the transaction. A version that was probed without any initial state is looked at again
    when one is there. Raises `SandboxUnavailable`.
    """
    stored = find_unchanged(record, source)
    if stored is not None and (stored.environment.scenario_count or not states):
        return "unchanged", stored
    if stored is None and (kept := find_kept_beside(record, source)) is not None:
        return "kept", kept
    view = view_of(record)
    findings = read_findings(record, view)
    if not any(item.severity == "fatal" for item in findings):
        findings += probe_findings(sandbox, view.program, encode_state(states[0]) if states else {})
    if stored is not None:
        replace_findings(stored, findings)
        return "unchanged", stored
    saved, _, version = save_environment(record, findings, source)
    return saved, version
