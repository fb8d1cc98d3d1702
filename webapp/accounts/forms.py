from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError

from webapp.accounts import services
from webapp.accounts.access import SCOPE_WORDS
from webapp.accounts.models import Role, User
from webapp.accounts.tokens import DAYS, MOST_DAYS, scopes_of
from webapp.forms.rows import PlainInput

UNREMEMBERED = {"autocomplete": "off"}


class LoginForm(AuthenticationForm):
    """Django's form behind a brake: a locked username is refused before its password is looked at."""

    def clean(self) -> dict[str, Any]:
        username = self.cleaned_data.get("username", "")
        address = str(self.request.META.get("REMOTE_ADDR", "")) if self.request else ""
        tries = bool(username and self.cleaned_data.get("password"))
        wait = services.begin_login(username, address) if tries else 0
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


class PasswordForm(PasswordChangeForm):
    """Django's, with the rules of a password in the page's words."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("new_password1", "new_password2"):
            self.fields[name].help_text = ""


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=100,
        label="What uses it",
        widget=PlainInput(attrs=UNREMEMBERED | {"data-key": "a", "data-does": "New token"}),
    )
    scopes = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple)
    days = forms.IntegerField(min_value=1, max_value=MOST_DAYS, initial=DAYS, label="Days until it expires")

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["scopes"].choices = [(name, SCOPE_WORDS[name]) for name in scopes_of(user)]  # type: ignore[attr-defined]
        self.fields["scopes"].initial = ["read"]
        self.fields["scopes"].template_name = "accounts/tokens/scopes_field.html"  # type: ignore[attr-defined]

    def values(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in ("name", "scopes", "days")}


class NewUserForm(forms.Form):
    username = forms.CharField(max_length=150, widget=PlainInput(attrs=UNREMEMBERED))
    role = forms.ChoiceField(choices=Role.choices, initial=Role.ANNOTATOR)
