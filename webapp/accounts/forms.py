from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError

from webapp.accounts import login_brake
from webapp.accounts.access import SCOPE_WORDS
from webapp.accounts.models import Role, User
from webapp.accounts.people import is_made_password
from webapp.accounts.role_descriptions import describe_roles, list_rights
from webapp.accounts.tokens import DAYS, MOST_DAYS, list_scopes
from webapp.common.forms.rows import PlainInput

UNREMEMBERED = {"autocomplete": "off"}


class LoginForm(AuthenticationForm):
    """Django's form with a brake: a locked username is refused before its password is checked.

    A password that was made here passes, whoever else tries that name: it cannot be guessed.
    """

    def clean(self) -> dict[str, Any]:
        username, password = (self.cleaned_data.get(name, "") for name in ("username", "password"))
        if not username or not password or is_made_password(password):
            return super().clean()
        try:
            with login_brake.brake_login(login_brake.build_place(self.request, username)):
                return super().clean()
        except login_brake.Locked as locked:
            raise ValidationError(
                f"Too many failed sign-ins for this name. Try again in {locked.seconds} seconds, in a browser in which "
                "you have signed in before, or with a new password from an administrator.",
                code="locked",
            ) from None


class PasswordForm(PasswordChangeForm):
    """Django's form, with the rules of a password in the page's words, and a brake on the check of the old one."""

    def __init__(self, *args: Any, place: login_brake.Place, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.place = place
        for name in ("new_password1", "new_password2"):
            self.fields[name].help_text = ""

    def clean_old_password(self) -> str:
        try:
            with login_brake.brake_login(self.place):
                return str(super().clean_old_password())
        except login_brake.Locked as locked:
            raise ValidationError(
                f"Too many wrong passwords. Try again in {locked.seconds} seconds, or ask an administrator for one.",
                code="locked",
            ) from None


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
        self.fields["scopes"].choices = [(name, SCOPE_WORDS[name]) for name in list_scopes(user)]  # type: ignore[attr-defined]
        self.fields["scopes"].initial = ["read"]
        self.fields["scopes"].template_name = "accounts/tokens/scopes_field.html"  # type: ignore[attr-defined]

    def values(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in ("name", "scopes", "days")}


class NewUserForm(forms.Form):
    username = forms.CharField(max_length=150, widget=PlainInput(attrs=UNREMEMBERED))
    role = forms.ChoiceField(choices=Role.choices, initial=Role.ANNOTATOR, widget=forms.RadioSelect)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.roles, self.rights = describe_roles(), list_rights()
        self.fields["role"].template_name = "accounts/users/role_field.html"  # type: ignore[attr-defined]
