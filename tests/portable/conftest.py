"""A Python that has `verifiers`, where there is one.

Tests of `test_verifiers.py` run where ENVARIUM_TEST_VERIFIERS names a Python that has it, and are skipped elsewhere.
One that has it (600 MB, no torch):

    python3.11 -m venv verifiers && verifiers/bin/pip install verifiers==0.4.0
    ENVARIUM_TEST_VERIFIERS=$PWD/verifiers/bin/python make test PYTEST_ARGS="-m slow tests/portable"
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.named_python import named_python


@pytest.fixture(scope="session")
def verifiers_python() -> Path:
    return Path(named_python("ENVARIUM_TEST_VERIFIERS", "verifiers.v1", "verifiers", "tests/portable/conftest.py"))
