"""Search for trajectories by the words of their text: what is found, where it stands, who may write what when."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client

from tests.fixtures import pages_seed, replay_seed
from tests.importing.test_importer import context_of
from tests.trajectories_pages.test_list import copies
from webapp.jobs.models import Job
from webapp.jobs.registry import KINDS
from webapp.pages.search import parse_query, search_all
from webapp.review.models import ReviewQueue
from webapp.review.queue_fill import filter_chosen
from webapp.trajectories.export.spec import build_selection
from webapp.trajectories.models import Step, Trajectory, TrajectoryText
from webapp.trajectories.text_search import matches, older_texts
from webapp.trajectories.text_search.text_rows import TextWords, write_text
from webapp.trajectories.text_search.words import format_value_text, parse_query_words, split_words
from webapp.trajectories.trajectory_list import filter_trajectories, read_filters

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=window.hit=1> quixotic\u202e tail\x07"


def indexed(key: str = "ordinary", **fields: Any) -> Trajectory:
    run = replay_seed.make(replay_seed.ordinary(key, **fields))
    write_text(run)
    return run


def found(text: str) -> list[int]:
    return sorted(filter_trajectories(read_filters(asked(text))).values_list("pk", flat=True))


def asked(text: str) -> QueryDict:
    query = QueryDict(mutable=True)
    query["q"] = text
    return query


@pytest.fixture
def ada(client: Client) -> Client:
    client.force_login(pages_seed.person("viewer"))
    return client


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Cancel the ORDER no. 12.5", ["cancel", "the", "order", "no", "12", "5"]),
        ("look_up_order", ["look", "up", "order"]),
        ("Straße ÉTÉ ﬁne", ["strasse", "été", "fine"]),
        ("注文2番", ["注", "文", "2", "番"]),
        ("or\u200bder or\u00adder", ["order", "order"]),
        ("\x07\u202e !?", []),
        ("x" * 90, ["x" * 64]),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_a_value_gives_its_keys_texts_and_numbers_without_escapes() -> None:
    assert format_value_text({"note": "a\nb", "rows": [1, {"ok": True}, None]}) == "note: a\nb, rows: 1, ok: True, "
    deep: Any = "bottom"
    for _ in range(5_000):
        deep = [deep]
    assert format_value_text(deep) == "bottom"


def test_each_text_of_a_run_is_searched() -> None:
    run, other = indexed(), indexed("other")
    Step.objects.filter(trajectory=run, index=2).update(
        reasoning="zebra",
        content="okapi",
        tool="tapir_call",
        arguments={"lemur": 7},
        result=["gecko"],
        recorded="ibex",
        matches=False,
    )
    write_text(run)
    for word in ("zebra", "OKAPI", "tapir_call", "lemur", "gecko", "ibex", "okapi zebra"):
        assert found(word) == [run.pk], word
    run.revision.instruction = "Feed the quokka"
    run.revision.save()
    write_text(run)
    assert found("quokka zebra") == [run.pk]
    assert found("quok") == [run.pk], "the last word may be a beginning"
    assert found("quok zebra") == found("qu") == found("zebra nothinglikeit") == []
    assert found("thursday") == sorted([run.pk, other.pk])
    assert found("!!! \u200b") == [], "never everything"


def test_many_matches_are_filtered_by_the_database_and_the_index_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [indexed(f"run {number}") for number in range(3)]
    monkeypatch.setattr(matches, "FEW", 1)
    assert found("thursday") == sorted(run.pk for run in runs)
    monkeypatch.setattr(matches, "MANY", 2)
    before = scans()
    assert len(filter_trajectories(read_filters(asked("thursday")))) == 3
    assert found("thursday") == sorted(run.pk for run in runs)
    assert filter_trajectories(read_filters(QueryDict("q=thursday&policy=none-of-them"))).count() == 0
    used, read_whole = (after - was for after, was in zip(scans(), before, strict=True))
    assert used >= 3
    assert read_whole == 0
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT trajectory_id FROM trajectories_trajectorytext WHERE words @@ 'thursday'::tsquery"
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Bitmap Index Scan on trajectory_words" in plan


def test_pages_of_many_matches_are_whole_and_counted(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run = indexed()
    copies(run, 119)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO trajectories_trajectorytext SELECT id, (SELECT words FROM trajectories_trajectorytext) "
            "FROM trajectories_trajectory WHERE id <> %s",
            [run.pk],
        )
    monkeypatch.setattr(matches, "FEW", 1)
    monkeypatch.setattr(matches, "MANY", 2)
    first = ada.get("/trajectories/?q=thursday").context["page"]
    assert first.words == "1\u201350 of 120"
    assert len(ada.get(first.after).context["page"].rows) == 50
    assert len(ada.get(first.last).context["page"].rows) == 20
    assert ada.get("/trajectories/?q=thursday&outcome=failed").context["page"].words == "1\u201350 of 120"


def scans() -> tuple[int, int]:
    """Scans of the index of words and of the whole table, in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_stat_get_xact_numscans('trajectory_words'::regclass),"
            " pg_stat_get_xact_numscans('trajectories_trajectorytext'::regclass)"
        )
        return cursor.fetchone()


def test_the_list_shows_where_the_words_stand_and_leads_there(ada: Client) -> None:
    run = indexed()
    Step.objects.filter(trajectory=run, index=4).update(content=f"Say {HOSTILE}")
    Step.objects.filter(trajectory=run, index=2).update(content="only the tail here")
    write_text(run)
    page = ada.get("/trajectories/", {"q": "quixotic tail"}).content.decode()
    assert f'href="/trajectories/{run.pk}/?step=4"' in page
    assert "step 4, text:" in page
    assert "&lt;img src=x onerror=window.hit=1&gt; <mark>quixotic</mark>" in page
    assert "<img src=x" not in page
    assert '<span class="ctl">\\u202e</span> <mark>tail</mark><span class="ctl">\\x07</span>' in page


def test_what_stands_in_no_step_leads_to_the_run(ada: Client) -> None:
    run = indexed()
    run.revision.instruction = "Feed the quokka"
    run.revision.save()
    write_text(run)
    page = ada.get("/trajectories/", {"q": "quokka"}).content.decode()
    assert "instruction:" in page
    assert f'href="/trajectories/{run.pk}/"' in page


def test_a_query_of_signs_says_that_there_is_nothing_to_search_for(ada: Client) -> None:
    indexed()
    answer = ada.get("/trajectories/", {"q": "?! <b>"[:3]})
    assert answer.context["page"].rows == []
    assert "has no letter and no digit" in answer.content.decode()
    assert len(ada.get("/trajectories/", {"q": "  \x00 "}).context["page"].rows) == 1, "an empty one asks for nothing"


def test_everything_that_takes_the_filters_of_the_list_takes_the_words(ada: Client) -> None:
    run, _ = indexed(), replay_seed.make(replay_seed.ordinary("unsearched"))
    line = ada.get("/api/v1/trajectories", {"q": "thursday"}).json()["data"]
    assert [row["id"] for row in line] == [run.pk]
    filters = read_filters(asked("thursday"))
    assert filters.any
    assert list(filter_trajectories(build_selection(filters).filters())) == [run]
    queue = ReviewQueue(kind="trajectory", query="q=thursday")
    assert list(filter_chosen(queue)) == [run]
    assert "q=thursday" in ada.get("/trajectories/?q=thursday").content.decode()


def test_the_palette_finds_text_and_leads_to_the_step(ada: Client) -> None:
    run, user = indexed(), pages_seed.person("admin")
    Step.objects.filter(trajectory=run, index=4).update(content=f"Say {HOSTILE}")
    write_text(run)
    (group,) = [group for group in search_all(parse_query("quixotic", user)) if group.kind == "trajectories"]
    assert [(hit.url, hit.place) for hit in group.hits] == [(f"/trajectories/{run.pk}/?step=4", "step 4, text")]
    page = ada.get("/search/?q=quixotic").content.decode()
    assert "<mark>quixotic</mark>" in page
    assert "<img src=x" not in page


def test_older_trajectories_are_filled_in_after_an_interruption(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [replay_seed.make(replay_seed.ordinary(f"old {number}")) for number in range(5)]
    live = replay_seed.make(replay_seed.ordinary("live", live=True))
    job = Job.objects.create(kind=matches.KIND, queue="sandbox", title="Words")
    assert "still being indexed" in ada.get("/trajectories/?q=thursday").content.decode()
    monkeypatch.setattr(older_texts, "BATCH", 2)
    context = context_of(job)
    beats = iter([None, None, RuntimeError("killed")])

    def interrupt(*_: Any) -> None:
        if (beat := next(beats)) is not None:
            raise beat

    context.progress = interrupt  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        KINDS[matches.KIND].handler(context)
    stored = set(TrajectoryText.objects.values_list("pk", flat=True))
    assert stored == {run.pk for run in runs[-len(stored) :]} != set(), "the newest first"
    again = Job.objects.create(kind="other", queue="sandbox", title="Words")
    assert KINDS[matches.KIND].handler(context_of(again)) == {"trajectories": len(runs) - len(stored)}
    assert found("thursday") == [run.pk for run in runs]
    assert not TrajectoryText.objects.filter(trajectory=live).exists()
    Job.objects.filter(pk=job.pk).update(state="failed")
    assert "their job is failed" in ada.get("/trajectories/?q=thursday").content.decode()
    Job.objects.filter(pk=job.pk).update(state="succeeded")
    assert "indexed" not in ada.get("/trajectories/?q=thursday").content.decode()


def test_a_huge_text_is_bounded_and_a_deleted_run_is_gone() -> None:
    run = indexed()
    Step.objects.filter(trajectory=run, index=1).update(
        result=json.loads(json.dumps([f"word{number}" for number in range(90_000)]))
    )
    write_text(run)
    assert found("word77") == [run.pk]
    run.delete()
    assert found("word77") == []
    assert TrajectoryText.objects.count() == 0


def test_only_the_first_places_of_a_word_are_kept() -> None:
    words = TextWords()
    for place in range(2, 30):
        words.add("ward", place)
    assert words.literal() == f"'ward':{','.join(map(str, range(2, 10)))}"
    assert parse_query_words("ward 3").tsquery == "'ward' & '3'"
    assert parse_query_words("ward ward wards").tsquery == "'ward' & 'wards':*"
