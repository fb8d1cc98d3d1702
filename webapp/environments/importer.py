"""Import of one environment: read it, probe it in the sandbox, store it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synthesis.assessment.environments import build_view, read_findings
from synthesis.assessment.probe import probe_program
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox, encode_state
from webapp.common.content_store import Saved
from webapp.environments.models import Version
from webapp.environments.services import find_noncurrent_version, find_unchanged, replace_findings, save_environment


def import_environment(
    sandbox: Sandbox, record: EnvironmentRecord, source: str, states: Sequence[dict[str, Any]] = ()
) -> tuple[Saved, Version]:
    """Store a record with its findings. `states` are plain initial states; the first is used for probing.

    Probing happens before the transaction. A version that was probed without an initial state is probed again once
    there is one. Raises `SandboxUnavailable`.
    """
    stored = find_unchanged(record, source)
    if stored is not None and (stored.environment.scenario_count or not states):
        return "unchanged", stored
    if stored is None and (noncurrent_version := find_noncurrent_version(record, source)) is not None:
        return "kept", noncurrent_version
    view = build_view(record)
    findings = read_findings(record, view)
    if not any(item.severity == "fatal" for item in findings):
        findings += probe_program(sandbox, view.program, encode_state(states[0]) if states else {})
    if stored is not None:
        replace_findings(stored, findings)
        return "unchanged", stored
    saved, _, version = save_environment(record, findings, source)
    return saved, version
