"""What stands between a running database and a site: tables, static files, the first user, demo content.

One process, because each start of Django costs a second.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import django
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError


def step(label: str, work: Callable[[], object]) -> None:
    began = time.monotonic()
    work()
    print(f"  {label:<26} {time.monotonic() - began:5.1f} s", flush=True)


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    try:
        step("code", django.setup)
        step("tables", lambda: call_command("migrate", verbosity=0, interactive=False))
        step("LLM endpoint", lambda: call_command("register_endpoint"))
        if settings.TRAINING:
            step("training", lambda: call_command("prepare_training"))
        if settings.PRODUCTION:
            step("static files", lambda: call_command("collectstatic", verbosity=0, interactive=False))
        else:
            step("demo user", lambda: call_command("ensure_demo_user", verbosity=0))
            step("demo content", lambda: call_command("demo"))
    except CommandError as error:
        print(f"{error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
