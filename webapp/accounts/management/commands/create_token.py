"""Creation of an API token from the command line, for scripts that set an installation up."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from synthesis.errors import InputError
from webapp.accounts.access import SCOPE_WORDS
from webapp.accounts.models import User
from webapp.accounts.tokens import DAYS, create_token


class Command(BaseCommand):
    help = "Make an API token for a user and print it, once. Scopes are never above the user's role."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--scopes", default="read", help="comma-separated, of " + ", ".join(SCOPE_WORDS))
        parser.add_argument("--name", default="command line", help="what uses it")
        parser.add_argument("--days", type=int, default=DAYS, help="until it expires (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user {options['username']}.")
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        try:
            _, text = create_token(None, user, options["name"], scopes, options["days"])
        except InputError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(text)
