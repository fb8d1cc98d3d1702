"""Saved views, columns, chips and headings of lists; what is saved is a person's own, or shared by choice."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.fixtures import pages_seed, replay_seed
from webapp.accounts.models import AuditEntry, User
from webapp.common.errors import Conflict
from webapp.common.lists import services
from webapp.common.lists.columns import Column, get_next_order
from webapp.common.lists.models import ColumnChoice, SavedView

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=window.hit=1>\u202e"


@pytest.fixture
def ada(db: None) -> User:
    return pages_seed.person("viewer")


@pytest.fixture
def reader(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def save(client: Client, name: str, query: str, **more: str) -> None:
    answer = client.post("/lists/trajectories/views/", {"name": name, "query": query, **more})
    assert answer.status_code == 302


def tabs(client: Client, query: str = "") -> list[tuple[str, bool]]:
    page = client.get(f"/trajectories/{query}")
    return [(tab.view.name, tab.current) for tab in page.context["list"].tabs]


def test_a_view_is_saved_found_again_in_any_order_of_its_parameters_and_deleted(reader: Client) -> None:
    replay_seed.make(replay_seed.ordinary())
    save(reader, " Failed, lowest first ", "?outcome=failed&order=reward&after=abc&policy=")
    view = SavedView.objects.get()
    assert (view.name, view.query) == ("Failed, lowest first", "outcome=failed&order=reward")
    assert tabs(reader, "?order=reward&outcome=failed") == [("Failed, lowest first", True)]
    assert "Save this view" not in reader.get(f"/trajectories/?{view.query}").content.decode()
    assert "Save this view" in reader.get("/trajectories/?outcome=solved").content.decode()
    save(reader, view.name, "outcome=solved")
    assert SavedView.objects.get().query == "outcome=solved"
    assert reader.post(f"/lists/views/{view.pk}/delete/").status_code == 302
    assert not SavedView.objects.exists()
    acts = AuditEntry.objects.filter(action__startswith="view.").order_by("pk").values_list("action", flat=True)
    assert list(acts) == ["view.save", "view.save", "view.delete"]


def test_a_view_is_its_owners_alone_until_it_is_shared(reader: Client, ada: User) -> None:
    other = User.objects.create_user("bob", role="annotator")
    services.save_view(other, "trajectories", "Bob's", "outcome=failed")
    shared = services.save_view(other, "trajectories", "Team", "outcome=solved", shared=True)
    assert tabs(reader) == [("Team", False)]
    assert reader.post(f"/lists/views/{shared.pk}/delete/").status_code == 404
    with pytest.raises(Conflict, match="is already shared"):
        services.save_view(ada, "trajectories", "Team", "", shared=True)
    services.delete_view(User.objects.create_user("root", role="admin"), shared.pk)
    assert tabs(reader) == []


def test_what_cannot_be_saved_is_said_and_nothing_leads_away(reader: Client) -> None:
    for name, query, said in (
        ("", "", "a name"),
        ("x" * 61, "", "60 characters"),
        ("x", "q=" + "y" * 3_000, "too long"),
    ):
        answer = reader.post("/lists/trajectories/views/", {"name": name, "query": query}, follow=True)
        assert said in answer.content.decode()
    away = reader.post("/lists/trajectories/views/", {"name": "x", "query": "//evil.example/?a=1"})
    assert away.headers["Location"].startswith("/trajectories/")
    assert reader.post("/lists/nothing/views/", {"name": "x"}).status_code == 404


def test_names_of_views_are_text(reader: Client) -> None:
    save(reader, HOSTILE, "outcome=failed")
    page = reader.get("/trajectories/?outcome=failed").content.decode()
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page


def test_columns_are_chosen_kept_and_given_back(reader: Client, ada: User) -> None:
    run = replay_seed.make(replay_seed.ordinary())
    assert "recorded" not in reader.get("/trajectories/").context["list"].shows
    reader.post("/lists/trajectories/columns/", {"column": ["recorded", "reward", "no-such"]})
    shown = reader.get("/trajectories/")
    assert shown.context["list"].shows == {"task", "recorded", "reward"}
    assert run.policy not in shown.content.decode().split("<tbody>")[1].split("</tbody>")[0]
    reader.post("/lists/trajectories/columns/", {"reset": "1"})
    assert not ColumnChoice.objects.filter(owner=ada).exists()


@pytest.mark.parametrize("path", ["/trajectories/", "/tasks/", "/environments/"])
def test_headings_sort_and_say_so(reader: Client, path: str) -> None:
    replay_seed.make(replay_seed.ordinary())
    for heading in reader.get(path).context["list"].headings:
        if not heading.url:
            continue
        page = reader.get(heading.url)
        assert page.status_code == 200
        now = next(other for other in page.context["list"].headings if other.column == heading.column)
        assert now.sorted, f"{path} by {heading.column.name}"
        assert f'aria-sort="{now.sorted}"' in page.content.decode()


def test_a_number_sorts_from_the_top_and_a_name_from_the_first_letter() -> None:
    number = Column("n", "N", ascending="n", descending="-n", numeric=True)
    name = Column("a", "A", ascending="a", descending="-a")
    assert (get_next_order(number, ""), get_next_order(number, "-n"), get_next_order(name, "")) == ("-n", "n", "a")
    assert get_next_order(Column("o", "O", descending="-o"), "-o") == "-o"


def test_filters_stand_as_chips_that_take_themselves_away(reader: Client) -> None:
    run = replay_seed.make(replay_seed.ordinary())
    page = reader.get(f"/trajectories/?outcome=failed&low=0.5&task={run.task_id}&after=x")
    chips = {chip.label: chip for chip in page.context["list"].chips if chip.set}
    assert {label: chip.words for label, chip in chips.items()} == {
        "Outcome": "failed",
        "Reward": "from 0.5",
        "Task": run.task.title,
    }
    assert chips["Reward"].clear == f"/trajectories/?outcome=failed&task={run.task_id}"
    assert page.context["list"].narrowed == 3
    assert page.context["list"].clear == "/trajectories/"


def test_ticked_rows_are_a_filter_of_their_own_everywhere(reader: Client) -> None:
    run = replay_seed.make(replay_seed.ordinary())
    for path, pk in (
        ("/trajectories/", run.pk),
        ("/tasks/", run.task_id),
        ("/environments/", run.environment_id),
    ):
        page = reader.get(f"{path}?ids={pk}&ids=x&ids=0&ids={2**70}")
        assert [row.pk for row in page.context["page"].rows] == [pk]
        assert "1 of the list" in page.content.decode()
        assert not reader.get(f"{path}?ids={pk + 1}").context["page"].rows
    assert reader.get(f"/trajectories/training/?ids={run.pk + 1}").context["found"] == 0


def test_an_audit_of_many_says_first_what_it_would_do(client: Client) -> None:
    run = replay_seed.make(replay_seed.ordinary())
    client.force_login(pages_seed.person("annotator"))
    page = client.get(f"/tasks/audit/preview/?ids={run.task_id}").content.decode()
    assert "Audit 1 task<" in page
    assert "not audited" in page
    assert f"/tasks/audit/?ids={run.task_id}" in page
    assert "No task is chosen" in client.get("/tasks/audit/preview/?q=zzzz").content.decode()
    started = client.post(f"/tasks/audit/?ids={run.task_id}", follow=True)
    assert "Audit tasks with selected 1" in started.content.decode()
