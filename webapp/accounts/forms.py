from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError

from webapp.accounts import services


class LoginForm(AuthenticationForm):
    """Django's form behind a brake: a locked username is refused before its password is looked at."""

    def clean(self) -> dict[str, Any]:
        username = self.cleaned_data.get("username", "")
        address = str(self.request.META.get("REMOTE_ADDR", "")) if self.request else ""
        wait = services.locked_seconds(username, address) if username else 0
        if wait:
            raise ValidationError(
                f"Too many failed sign-ins for this name from your address. Try again in {wait} seconds, "
                "or ask an administrator for a new password.",
                code="locked",
            )
        try:
            cleaned = super().clean()
        except ValidationError:
            services.note_failure(username, address)
            raise
        if self.user_cache is not None:
            services.forget_failures(username, address)
        return cleaned
