"""Preparation between a running database and a site: tables, static files, the first user, demo content.

One process, because each start of Django costs a second.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import django
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError


def run_step(label: str, work: Callable[[], object]) -> None:
    began = time.monotonic()
    work()
    print(f"  {label:<26} {time.monotonic() - began:5.1f} s", flush=True)


EARLIER = """The database of this installation was made by an earlier version of Envarium, whose tables this one cannot
carry over (it knows nothing of {names}). Nothing was changed in it. Either
- start with a new one: ENVARIUM_HOME=/some/new/folder make run (or another DATABASE_URL), or
- go back to the version that made it, export what you want to keep (manage.py export_envscaler,
  manage.py export_trajectories), and import that into a new one."""


def refuse_earlier_tables() -> None:
    """Raise CommandError if migrations were applied that this version does not have."""
    from django.db import connection
    from django.db.migrations.loader import MigrationLoader

    loader = MigrationLoader(connection)
    own = {config.label for config in apps.get_app_configs() if config.name.startswith("webapp.")}
    unknown = sorted(
        f"{app}.{name}"
        for app, name in loader.applied_migrations
        if app in own and (app, name) not in loader.graph.nodes
    )
    if unknown:
        raise CommandError(EARLIER.format(names=", ".join(unknown[:3])))


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    try:
        run_step("code", django.setup)
        refuse_earlier_tables()
        run_step("tables", lambda: call_command("migrate", verbosity=0, interactive=False))
        run_step("LLM endpoint", lambda: call_command("register_endpoint"))
        if settings.TRAINING:
            run_step("training", lambda: call_command("prepare_training"))
        if settings.PRODUCTION:
            run_step("static files", lambda: call_command("collectstatic", verbosity=0, interactive=False))
        else:
            run_step("demo user", lambda: call_command("ensure_demo_user", verbosity=0))
            run_step("demo content", lambda: call_command("demo"))
            run_step("demo queue", lambda: call_command("demo_queue", verbosity=0))
            run_step("demo session", lambda: call_command("demo_session", verbosity=0))
    except CommandError as error:
        print(f"{error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
