"""JSON whose order and odd characters survive PostgreSQL, and numbers and names as pages show them."""

from __future__ import annotations

from typing import Any

import pytest
from django.template import Context, Template

from tests.fixtures import runs_seed
from webapp.common.templatetags.show import number
from webapp.runs.models import TrainingJob


@pytest.mark.django_db
@pytest.mark.parametrize("value", ["booked", '{"day": "Tuesday"}', "5", "", {"b": 1, "a": ["\x00"]}, 5, None])
def test_a_document_comes_back_as_it_was(value: Any) -> None:
    job = runs_seed.training_job(steps=0, environments=0, result=value)
    assert TrainingJob.objects.get(pk=job.pk).result == value


@pytest.mark.parametrize(
    ("value", "said"),
    [(2e-6, "2e-06"), (0.00123, "0.00123"), (-0.0001, "-0.0001"), (0.5, "0.5"), (1234.5678, "1,235"), (-0.0, "0")],
)
def test_a_small_number_is_not_shown_as_nothing(value: float, said: str) -> None:
    assert number(value) == said


@pytest.mark.parametrize("last", ["visible", "shown:40", "plain"])
def test_a_row_of_names_is_escaped_once(last: str) -> None:
    page = Template("{{ names|join_texts:' > '|" + last + " }}")
    assert page.render(Context({"names": ["Travel & Maps", "<i>"]})) == "Travel &amp; Maps &gt; &lt;i&gt;"
