"""Triggers that write the audit log: a row before and after, whichever way it was changed.

A service sets the actor and the reason inside its transaction (`set_actor`); a change without one is written too,
without an actor and `via` the database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from webapp.accounts.models import User
from webapp.accounts.origin import CURRENT

SETTING = "envarium.actor"
FUNCTION = """
CREATE FUNCTION write_row_log() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  who jsonb := coalesce(nullif(current_setting('envarium.actor', true), '')::jsonb, '{}'::jsonb);
  was jsonb := CASE WHEN TG_OP = 'INSERT' THEN '{}'::jsonb ELSE to_jsonb(OLD) END;
  now_is jsonb := CASE WHEN TG_OP = 'DELETE' THEN '{}'::jsonb ELSE to_jsonb(NEW) END;
  before jsonb := '{}'::jsonb;
  after jsonb := '{}'::jsonb;
  facts jsonb := '{}'::jsonb;
  name text;
BEGIN
  FOREACH name IN ARRAY string_to_array(TG_ARGV[1], ',') LOOP
    IF (was -> name) IS DISTINCT FROM (now_is -> name) THEN
      IF TG_OP <> 'INSERT' THEN before := before || jsonb_build_object(name, was -> name); END IF;
      IF TG_OP <> 'DELETE' THEN after := after || jsonb_build_object(name, now_is -> name); END IF;
    END IF;
  END LOOP;
  IF before = '{}'::jsonb AND after = '{}'::jsonb THEN RETURN NULL; END IF;
  IF TG_OP <> 'INSERT' THEN facts := facts || jsonb_build_object('before', before); END IF;
  IF TG_OP <> 'DELETE' THEN facts := facts || jsonb_build_object('after', after); END IF;
  IF who ? 'why' THEN facts := facts || jsonb_build_object('why', who -> 'why'); END IF;
  INSERT INTO accounts_auditentry
    (at, actor_id, actor_label, via, action, object_type, object_id, object_label, detail, address)
  VALUES (
    clock_timestamp(), (who ->> 'id')::bigint, coalesce(who ->> 'name', ''), coalesce(who ->> 'via', 'database'),
    TG_ARGV[0] || CASE TG_OP WHEN 'INSERT' THEN '.create' WHEN 'DELETE' THEN '.delete' ELSE '.change' END,
    TG_ARGV[0], coalesce(now_is ->> 'id', was ->> 'id'),
    left(coalesce(now_is ->> TG_ARGV[2], was ->> TG_ARGV[2], ''), 200), facts::json, coalesce(who ->> 'address', '')
  );
  RETURN NULL;
END $$;
"""
NO_FUNCTION = "DROP FUNCTION write_row_log();"


def log_rows(table: str, name: str, columns: Sequence[str], label: str, *, when: str = "", of: str = "") -> str:
    """Return SQL of a trigger that writes each change of these columns; `of` and `when` narrow it to some updates."""
    on = f"UPDATE OF {of}" if of else "INSERT OR UPDATE OR DELETE"
    condition = f" WHEN ({when})" if when else ""
    return (
        f"CREATE TRIGGER {table}_row_log AFTER {on} ON {table} FOR EACH ROW{condition} "
        f"EXECUTE FUNCTION write_row_log('{name}', '{','.join(columns)}', '{label}');"
    )


def no_log(table: str) -> str:
    """Return SQL that removes the trigger."""
    return f"DROP TRIGGER {table}_row_log ON {table};"


@contextmanager
def set_actor(actor: Any, why: str = "") -> Iterator[None]:
    """Run a transaction in which the triggers know the actor, the origin and the reason.

    Inside another one, the outer values hold again at its end.
    """
    known_user = actor if isinstance(actor, User) else None
    origin = CURRENT.get()
    actor_facts: dict[str, Any] = {"via": origin.via[:32], "address": origin.address[:45]}
    if known_user is not None:
        actor_facts |= {"id": known_user.pk, "name": known_user.username}
    if why:
        actor_facts["why"] = why[:4_000]
    inside = connection.in_atomic_block
    with transaction.atomic(), connection.cursor() as cursor:
        before = ""
        if inside:  # else there is no actor yet, and the setting ends with the transaction
            cursor.execute("SELECT current_setting(%s, true)", [SETTING])
            before = cursor.fetchone()[0] or ""
        cursor.execute("SELECT set_config(%s, %s, true)", [SETTING, json.dumps(actor_facts)])
        yield
        if inside:
            cursor.execute("SELECT set_config(%s, %s, true)", [SETTING, before])
