"""`migrate`, which makes the tables of an empty database in a fraction of the time.

At each step Django builds the classes of all models anew that are related, however distantly, to the model of the step:
8,300 classes for a hundred tables, most of twenty seconds. A model that is new or gets a field needs only its own
class, and an index or a constraint none at all, since PostgreSQL's statements use nothing of the classes of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from django.core.management.commands import migrate
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ModelState, ProjectState


def _add_model(self: ProjectState, model_state: ModelState) -> None:
    key = model_state.app_label, model_state.name_lower
    self.models[key] = model_state
    if self._relations is not None:  # type: ignore[attr-defined]
        self.resolve_model_relations(key)
    if "apps" in self.__dict__:
        self.apps.render_multiple([model_state])


def _append_option(self: ProjectState, app_label: str, model_name: str, option_name: str, added: Any) -> None:
    options = self.models[app_label, model_name].options
    options[option_name] = [*options[option_name], added]
    if "apps" in self.__dict__:
        meta = self.apps.get_model(app_label, model_name)._meta
        setattr(meta, option_name, [*getattr(meta, option_name), added])


def _find_reload_model(
    self: ProjectState, app_label: str, model_name: str, delay: bool = False
) -> set[tuple[str, str]]:
    return {(app_label, model_name)}


@contextmanager
def use_growing_states() -> Iterator[None]:
    """Add only new parts to a migration's state within this context; of existing models only changed ones are built
    again."""
    original_methods = {
        name: getattr(ProjectState, name) for name in ("add_model", "_append_option", "_find_reload_model")
    }
    try:
        ProjectState.add_model = _add_model  # type: ignore[method-assign]
        ProjectState._append_option = _append_option  # type: ignore[attr-defined]
        ProjectState._find_reload_model = _find_reload_model  # type: ignore[attr-defined]
        yield
    finally:
        for name, method in original_methods.items():
            setattr(ProjectState, name, method)


class Command(migrate.Command):
    """Django's command; a database with earlier migrations is migrated exactly as by Django."""

    def handle(self, *args: Any, **options: Any) -> None:
        applied = MigrationRecorder(connections[options["database"]]).applied_migrations()
        with nullcontext() if applied else use_growing_states():
            super().handle(*args, **options)
