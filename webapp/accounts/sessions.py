"""Sessions and users of requests, read at each request by SQL that is made once."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.utils import timezone

from webapp.accounts.models import User
from webapp.common.database.kept_sql import Given, KeptQuery

_SESSION = KeptQuery[Session](lambda: Session.objects.filter(session_key=Given("key"), expire_date__gt=Given("now")))
_USER = KeptQuery[User](lambda: User.objects.filter(pk=Given("pk")))


class SessionStore(db.SessionStore):
    """Sessions in the database, as Django keeps them."""

    def _get_session_from_db(self) -> Session | None:
        found = _SESSION.first(key=self.session_key, now=timezone.now())
        if found is None:
            self._session_key = None
        return found


class AccountBackend(ModelBackend):
    """Names and passwords, as Django checks them."""

    def get_user(self, user_id: Any) -> User | None:
        user = _USER.first(pk=user_id)
        return user if user is not None and self.user_can_authenticate(user) else None
