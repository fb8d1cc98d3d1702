"""Roles say what each may do, in words that follow from the access rules."""

from __future__ import annotations

import ast

import pytest
from django.test import Client

from tests.architecture.source_files import ROOT, sources, tree_of
from tests.fixtures import pages_seed
from tests.fixtures.markup import flat
from webapp.accounts.access import POWERS, SCOPE_WORDS, SCOPES
from webapp.accounts.models import Role
from webapp.accounts.role_descriptions import describe_role, describe_roles, list_rights
from webapp.batches.services import CAPPED_ROLES
from webapp.labelling.rights import may_adjudicate
from webapp.review.queues import can_edit
from webapp.taxonomy.changes.rights import may_reshape

YES = '<span class="good" aria-hidden="true">✓</span><span class="visually-hidden">yes</span>'
NO = '<span class="muted" aria-hidden="true">&ndash;</span><span class="visually-hidden">no</span>'


def test_words_follow_from_the_rules_that_views_and_services_ask() -> None:
    asked = {"adjudicate": may_adjudicate, "edit_queues": can_edit, "edit_tree": may_reshape}
    assert set(asked) | {"spend"} == set(POWERS), "a power that no words are compared for"
    for role in Role.values:
        user = pages_seed.User(username=role, role=role)
        allowed = {words for scope, words in SCOPE_WORDS.items() if scope in SCOPES[role]}
        allowed |= {POWERS[power][1] for power, rule in asked.items() if rule(user)}
        if "synthesise" in SCOPES[role] and role not in CAPPED_ROLES:
            allowed.add(POWERS["spend"][1])
        said = describe_role(role)
        assert set(said.may) == allowed, role
        assert set(said.may_not) == {*SCOPE_WORDS.values(), *(words for _, words in POWERS.values())} - allowed
    assert len({(said.purpose, said.may) for said in describe_roles()}) == len(Role.values)
    annotator, adjudicator = describe_role(Role.ANNOTATOR), describe_role(Role.ADJUDICATOR)
    assert any("settle what others disagree on" in words for words in set(adjudicator.may) - set(annotator.may))
    assert any("start batches" in words for words in annotator.may), "a right that a new annotator has to know of"


def test_roles_are_grouped_in_one_place_alone() -> None:
    grouped = [
        str(path.relative_to(ROOT))
        for path in sources("webapp")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Set | ast.Tuple | ast.List)
        and any(ast.unparse(one).startswith("Role.") for one in node.elts)
    ]
    assert set(grouped) == {"webapp/accounts/access.py"}


@pytest.mark.django_db
def test_every_form_that_gives_a_role_explains_it() -> None:
    admin, annotator = pages_seed.person("admin"), pages_seed.person("annotator")
    page = Client()
    page.force_login(admin)
    for url in ("/account/users/", f"/account/users/{annotator.pk}/"):
        text = flat(page.get(url))
        for said in describe_roles():
            assert said.purpose in text, (url, said.value)
        for right in list_rights():
            cells = "".join(f"<td>{YES if allowed else NO}</td>" for allowed in right.allowed)
            assert f'<th scope="row">{right.words}</th>{cells}' in text, (url, right.words)
    page.force_login(annotator)
    own = flat(page.get("/account/"))
    assert describe_role(Role.ANNOTATOR).purpose in own
    assert "; ".join(describe_role(Role.ANNOTATOR).may_not) in own
    assert describe_role(Role.ADJUDICATOR).purpose not in own
