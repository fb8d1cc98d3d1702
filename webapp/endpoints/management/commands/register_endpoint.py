from typing import Any

from django.core.management.base import BaseCommand, CommandError

from synthesis.errors import EnvariumError
from webapp.endpoints.services import register_from_environment


class Command(BaseCommand):
    help = "Registers the endpoint that OPENAI_BASE_URL and OPENAI_API_KEY name, or brings it up to date."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            row = register_from_environment()
        except EnvariumError as error:
            raise CommandError(f"OPENAI_BASE_URL or OPENAI_API_KEY cannot be used: {error}") from error
        if row is not None:
            self.stdout.write(f"LLM endpoint {row.name}: {row.base_url}")
