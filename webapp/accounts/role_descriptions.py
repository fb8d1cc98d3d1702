"""Roles in plain words, composed of the access rules, so that pages always match the rules."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.accounts.access import POWERS, SCOPE_WORDS, SCOPES
from webapp.accounts.models import Role

PURPOSES: dict[str, str] = {
    Role.VIEWER: "Reads along and changes nothing.",
    Role.ANNOTATOR: "Works through queues and labelling sessions that others set up.",
    Role.ADJUDICATOR: "Sets up the work of annotators, and has the last word if they disagree.",
    Role.RESEARCHER: "Sets up reviews, and makes datasets and trains models from what comes out of them.",
    Role.OPERATOR: "Keeps batches, training and their workers running for all users.",
    Role.ADMIN: "Manages the installation and its users.",
}


@dataclass(frozen=True)
class RoleDescription:
    """One role in words: `purpose` says who it is for, `may` and `may_not` follow from the access rules."""

    value: str
    label: str
    purpose: str
    may: tuple[str, ...]
    may_not: tuple[str, ...]


@dataclass(frozen=True)
class Right:
    """A right that some roles have: in words, and whether each role has it, in the order of `Role`."""

    words: str
    allowed: tuple[bool, ...]


def list_rights() -> list[Right]:
    """List the rights of all roles, those that most roles have first."""
    held = [(words, [role for role in Role if scope in SCOPES[role]]) for scope, words in SCOPE_WORDS.items()]
    held += [(words, [role for role in Role if role in roles]) for roles, words in POWERS.values()]
    rights = [Right(words, tuple(role in roles for role in Role)) for words, roles in held]
    return sorted(rights, key=lambda right: -sum(right.allowed))


def describe_role(role: str) -> RoleDescription:
    """Describe what `role` allows and what it does not."""
    at = Role.values.index(role)
    rights = [(right.allowed[at], right.words) for right in list_rights()]
    return RoleDescription(
        value=role,
        label=Role(role).label,
        purpose=PURPOSES[role],
        may=tuple(words for allowed, words in rights if allowed),
        may_not=tuple(words for allowed, words in rights if not allowed),
    )


def describe_roles() -> list[RoleDescription]:
    """Describe all roles, from the one with the fewest rights on."""
    return [describe_role(role) for role in Role.values]
