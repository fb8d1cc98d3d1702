#!/usr/bin/env python
"""Envarium's management commands: `python manage.py help`."""

import os
import sys

from webapp.stack.attach import attach_servers
from webapp.stack.errors import StackError


def main() -> None:
    try:
        with attach_servers(sys.argv):
            os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
            from django.core.management import execute_from_command_line  # reads the settings

            execute_from_command_line(sys.argv)
    except StackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
