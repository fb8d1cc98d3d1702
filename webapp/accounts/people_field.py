"""Form field to choose people: a list to tick, with their roles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms

from webapp.accounts.access import SCOPES
from webapp.accounts.models import Role, User
from webapp.accounts.queries import OF_PROGRAM
from webapp.common.templatetags.show import plain

MOST_LISTED = 500


class PeopleField(forms.MultipleChoiceField):
    """User names of active people who may review; `data-find` lets a script add a search field to a long list.

    Accounts of programs are not listed: they can be named over the API.
    """

    widget = forms.CheckboxSelectMultiple

    def __init__(self, **more: Any) -> None:
        super().__init__(required=False, **more)
        self.widget.attrs["data-find"] = ""

    def offer_reviewers(self, also: Iterable[str] = ()) -> None:
        """List the users who may review now, and `also` these, who were chosen before."""
        roles = [role for role, scopes in SCOPES.items() if "review" in scopes]
        rows = User.objects.filter(is_active=True, role__in=roles).exclude(OF_PROGRAM).order_by("username")
        listed = dict(rows.values_list("username", "role")[:MOST_LISTED])
        choices = [(name, f"{plain(name)}, {Role(role).label.lower()}") for name, role in listed.items()]
        self.choices = [*choices, *((name, plain(name)) for name in also if name not in listed)]
