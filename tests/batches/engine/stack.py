"""`make run` for the kill test: the same supervisor, servers, site and workers, but for slower replies and no demo.

python -m tests.batches.engine.stack
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from webapp.stack import __main__ as stack
from webapp.stack import services
from webapp.stack.process import Service

worker, prepare = services.build_worker_service, services.build_prepare_service


def slow_worker(environment: Mapping[str, str], queue: str, size: int, records: Path) -> Service:
    found = worker(environment, queue, size, records)
    return replace(found, command=[*found.command, "-I", "tests.batches.engine.slow_worker"])


def tables(environment: Mapping[str, str]) -> Service:
    return replace(
        prepare(environment), command=services.build_python_command("manage.py", "migrate", "--verbosity", "0")
    )


if __name__ == "__main__":
    services.build_worker_service, services.build_prepare_service = slow_worker, tables
    sys.exit(stack.main())
