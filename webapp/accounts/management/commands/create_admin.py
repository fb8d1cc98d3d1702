"""Creation of the first user of a production installation."""

from __future__ import annotations

import sys
from getpass import getpass
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from webapp.accounts.models import Role, User
from webapp.accounts.services import write_audit_entry


class Command(BaseCommand):
    help = "Create a user with the role admin. The password is asked for, or read from standard input when piped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User(username=options["username"], role=Role.ADMIN)
        if User.objects.filter(username=user.username).exists():
            raise CommandError(f"The user {user.username} exists already.")
        password = getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        try:
            validate_password(password, user)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        user.set_password(password)
        with transaction.atomic():
            user.save()
            write_audit_entry(None, "user.create", user, role=user.role)
        self.stdout.write(f"The user {user.username} may now log in.")
