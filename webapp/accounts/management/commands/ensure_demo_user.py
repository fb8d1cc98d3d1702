"""The administrator that a development installation starts with."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from webapp.accounts.models import Role, User

USERNAME = "demo"


class Command(BaseCommand):
    help = "Make sure that the user `demo` exists, with the password in ENVARIUM_HOME/demo-password. Not in production."

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.PRODUCTION:
            raise CommandError("There is no demo user in production. Use `manage.py createsuperuser`.")
        path = settings.ENVARIUM_HOME / "demo-password"
        try:
            password = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}. `make run` writes it.") from error
        if len(password) < 10:
            raise CommandError(f"{path} must hold a password of 10 characters or more.")
        user = User.objects.filter(username=USERNAME).first()
        if user is None:
            user = User(username=USERNAME, role=Role.ADMIN)
        elif user.check_password(password):
            return
        user.set_password(password)
        user.save()
        if options["verbosity"]:
            self.stdout.write(f"The user {USERNAME} has the password in {path}.")
