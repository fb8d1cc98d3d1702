"""Migrations are what the models say; a database that an earlier version made is refused, with what to do."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from webapp.stack.prepare import refuse_earlier_tables

pytestmark = pytest.mark.django_db


def test_models_and_migrations_say_the_same() -> None:
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)


def test_tables_of_this_version_are_taken() -> None:
    refuse_earlier_tables()


def test_tables_of_an_earlier_version_are_refused_with_what_to_do() -> None:
    MigrationRecorder(connection).record_applied("runs", "0002_reward_curves")
    with pytest.raises(CommandError) as refused:
        refuse_earlier_tables()
    assert "runs.0002_reward_curves" in str(refused.value)
    assert "ENVARIUM_HOME=" in str(refused.value)
    assert "export_trajectories" in str(refused.value)
