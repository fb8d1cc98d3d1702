from typing import Any

from django.core.management.base import BaseCommand, CommandError

from synthesis.errors import EnvariumError
from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import MAX_MODELS, register_from_environment, save_models
from webapp.endpoints.trial import look_for_models

START_SECONDS = 5.0


class Command(BaseCommand):
    help = "Registers the endpoint that OPENAI_BASE_URL and OPENAI_API_KEY name, or brings it up to date."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            row = register_from_environment()
        except EnvariumError as error:
            raise CommandError(f"OPENAI_BASE_URL or OPENAI_API_KEY cannot be used: {error}") from error
        if row is not None:
            self.stdout.write(f"LLM endpoint {row.name}: {row.base_url}{self.models(row)}")

    def models(self, row: Endpoint) -> str:
        """Ask a server for its models if none are known yet, briefly: a server that is down must not delay the
        start."""
        if row.model_names:
            return ""
        try:
            names = look_for_models(row, START_SECONDS)
        except EnvariumError as error:
            return f"\n  Its models are not known yet: {error} The page Models can ask again."
        save_models(None, row.pk, names[:MAX_MODELS])
        return f", {len(names)} models"
