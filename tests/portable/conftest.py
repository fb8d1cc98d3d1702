"""A Python that has `verifiers`, where there is one.

Tests of `test_verifiers.py` run where ENVARIUM_TEST_VERIFIERS names a Python that has it, and are skipped elsewhere.
One that has it (600 MB, no torch):

    python3.11 -m venv verifiers && verifiers/bin/pip install verifiers==0.4.0
    ENVARIUM_TEST_VERIFIERS=$PWD/verifiers/bin/python make test PYTEST_ARGS="-m slow tests/portable"
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def verifiers_python() -> Path:
    named = os.environ.get("ENVARIUM_TEST_VERIFIERS", "").strip()
    if not named:
        pytest.skip("ENVARIUM_TEST_VERIFIERS names no Python with verifiers (tests/portable/conftest.py says how)")
    found = subprocess.run([named, "-c", "import verifiers.v1"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.fail(f"ENVARIUM_TEST_VERIFIERS={named} has no verifiers that can be used: {found.stderr[-500:]}")
    return Path(named)
