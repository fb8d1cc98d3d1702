"""Agreement of a session: measured by its job from closed rounds alone, kept until labels change, shown and sent."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.agreement import seed
from webapp.common.errors import Conflict
from webapp.jobs.jobs import run_job
from webapp.jobs.models import Job, JobState
from webapp.labelling.models import Agreement, Label, LabelSession, Settlement
from webapp.labelling.results import services
from webapp.labelling.results.schemas import AgreementOut, RoundAgreementOut

pytestmark = pytest.mark.django_db


def measured(session: LabelSession, *, known_answers: bool = True) -> AgreementOut:
    """As the job leaves it."""
    job = services.start_measuring(seed.adjudicator(), session)
    run_job(job.pk)
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED, job.error
    return services.load_agreement(session, known_answers=known_answers)


def values(found: RoundAgreementOut) -> dict[str, float | None]:
    return {measure.key: measure.figure.value for measure in found.measures}


def test_a_session_is_measured_before_and_after_discussion() -> None:
    session = seed.ordinary()
    found = measured(session)
    before, after = found.rounds
    assert (found.state, found.kind, before.number, after.number) == ("measured", "place", 1, 2)
    assert (before.items, before.labels) == (8, 24), "the known answer and the model count in no measure"
    assert (after.items, after.labels) == (8, 24), "items that were not asked again keep their labels"
    raw = {measure.key: measure.figure for measure in before.measures}["raw_1"]
    assert (raw.agreeing, raw.pairs) == (19, 24)
    assert values(after)["raw_1"] == 1.0
    assert 0 < (values(before)["alpha_tree"] or 0) < (values(after)["alpha_tree"] or 0) < 1
    parted = {(tuple(part.one), tuple(part.other)): part.pairs for part in before.confusion.partings}
    assert sum(parted.values()) == 5
    assert set(parted.values()) <= {1, 2}
    assert ["Health & Fitness", "Pharmacy", "Stock"] in [part.one for part in before.nodes.partings]


@pytest.mark.slow
def test_annotators_stand_beside_each_other_the_settled_and_the_known_answers() -> None:
    session = seed.ordinary()
    ferry = session.items.get(position=2)
    Settlement.objects.create(item=ferry, node=32)
    [before, _] = measured(session).rounds
    lines = {line.name: line for line in before.annotators}
    assert list(lines) == ["ines", "marek", "tove", "local/qwen3"], "people first"
    assert [lines[name].gold_right for name in lines] == [1, 1, 0, 1]
    assert [(line.settled_right, line.settled) for line in lines.values()] == [(0, 1), (0, 1), (1, 1), (0, 1)]
    assert lines["local/qwen3"].is_model
    assert lines["local/qwen3"].alpha_without is None
    assert lines["tove"].quick == 9
    assert lines["ines"].quick == 0
    assert all(line.reliability is not None for line in before.annotators if not line.is_model)
    pairs = {frozenset((pair.one, pair.other)): pair for pair in before.pairs}
    assert len(pairs) == 6
    ines_marek = pairs[frozenset(("ines", "marek"))]
    assert ines_marek.raw.items == 8
    assert ines_marek.kappa is not None
    assert (ines_marek.raw.agreeing, ines_marek.rand) == (6, None)


def test_groupings_are_compared_by_pairs_of_labels() -> None:
    session = seed.session(kind="merge", places="")
    [item] = seed.items(session, 1)
    item.content = {"labels": [{"id": pk, "name": f"label {pk}"} for pk in (11, 12, 13, 21)]}
    item.save()
    both = [{"name": "Care", "labels": [11, 12]}, {"name": "Rest", "labels": [13, 21]}]
    other = [{"name": "Health", "labels": [11, 12, 13]}, {"name": "Trips", "labels": [21]}]
    seed.labelled(session, [item], {}, groups={"ines": both, "marek": both, "tove": other})
    [found] = measured(session).rounds
    indices = {(pair.one, pair.other): pair.rand.value for pair in found.pairs if pair.rand}
    assert indices["ines", "marek"] == 1.0
    assert indices["ines", "tove"] == pytest.approx(0.0)
    assert values(found)["rand"] == pytest.approx(1 / 3)
    # Without 11, 12, 13 and 21 in turn the mean is 0, 0, 1 and 1/3: the jackknife's variance is 3/4 of 2/3.
    mean = found.measures[0].figure
    assert (mean.low, mean.high) == (-1.0, 1.0), "1/3 and 1.96 times 0.7071 on each side, within what the index can be"
    split = {(part.one[0], part.other[0]): (part.pairs, part.of) for part in found.nodes.partings}
    assert split["label 13", "label 21"] == (2, 3)
    assert split["label 11", "label 13"] == (1, 3)
    assert ("label 11", "label 12") not in split


def test_a_merge_has_an_interval_a_verdict_in_words_and_whole_heads() -> None:
    session = seed.session(kind="merge", places="")
    [item] = seed.items(session, 1)
    item.content = {"labels": [{"id": pk, "name": f"label {pk}"} for pk in range(1, 41)]}
    item.save()
    of_four = [{"name": f"Group {start}", "labels": list(range(start, start + 4))} for start in range(1, 41, 4)]
    # One person puts the last two labels of the last group apart from it.
    parted = [*of_four[:-1], {"name": "Rest", "labels": [37, 38]}, {"name": "Apart", "labels": [39, 40]}]
    seed.labelled(session, [item], {}, groups={"ines of the first floor": of_four, "marek": of_four, "tove": parted})
    [found] = measured(session).rounds
    mean = found.measures[0].figure
    assert mean.value is not None
    assert mean.low is not None
    assert mean.high is not None
    assert 0.80 < mean.low < mean.value < mean.high <= 1
    client = Client()
    client.force_login(seed.adjudicator())
    page = client.get(f"/taxonomy/sessions/{session.pk}/agreement/").content.decode()
    assert "Good: the whole interval lies above 0.80." in page
    assert 'title="ines of the first floor"><span>ines of the first floor</span></th>' in page
    assert "“Alpha without”: alpha of all the" in " ".join(page.split())


def test_nothing_of_an_open_round_is_read() -> None:
    session = seed.session(state="open")
    asked = seed.items(session, 2)
    seed.labelled(session, asked, {"ines": [11, 12], "marek": [11, 31]}, is_open=True)
    with pytest.raises(Conflict, match="No round of this session is closed"):
        services.start_measuring(seed.adjudicator(), session)
    assert services.load_agreement(session, known_answers=True).state == "none"

    session.rounds.update(is_open=False)
    first = measured(session)
    seed.labelled(session, asked, {"ines": [31, 31], "marek": [12, 12]}, number=2, is_open=True)
    again = measured(session)
    assert again == first, "labels of the open round change nothing that can be seen, the hash included"


def test_the_same_labels_are_measured_once_and_others_anew() -> None:
    session = seed.ordinary()
    first = measured(session)
    stamp = Agreement.objects.get().measured_at
    assert measured(session) == first
    assert Agreement.objects.get().measured_at == stamp
    assert Job.objects.filter(kind=services.MEASURE_JOB).last().result["measured"] is False  # type: ignore[union-attr]

    Settlement.objects.create(item=session.items.get(position=1), node=11)
    assert services.load_agreement(session, known_answers=True).state == "stale"
    assert measured(session).state == "measured"
    Label.objects.filter(round__number=2).delete()
    assert len(measured(session).rounds) == 1


def test_one_job_measures_at_a_time() -> None:
    session = seed.ordinary()
    assert services.start_measuring(None, session) == services.start_measuring(None, session)


def test_without_variation_it_is_undefined_and_says_so(client: Client) -> None:
    session = seed.session()
    seed.labelled(session, seed.items(session, 4), {name: [11] * 4 for name in seed.PEOPLE})
    [found] = measured(session).rounds
    alpha = next(measure.figure for measure in found.measures if measure.key == "alpha_tree")
    assert (alpha.value, alpha.reason, alpha.agreeing, alpha.pairs) == (None, "no variation", 12, 12)
    client.force_login(seed.adjudicator())
    page = client.get(f"/taxonomy/sessions/{session.pk}/agreement/").content.decode()
    assert "no variation" in page
    assert "all 12 pairs say the same" in page
    assert "nan" not in page.lower().replace("nance", "")


def test_the_page_and_the_api_say_the_same_and_keep_known_answers_from_who_labels(client: Client) -> None:
    session = seed.ordinary(name="<script>alert(1)</script>")
    Label.objects.filter(judge="local/qwen3").update(judge="<b>model</b>")
    address, api = f"/taxonomy/sessions/{session.pk}/agreement/", f"/api/v1/label-sessions/{session.pk}/agreement"
    client.force_login(seed.people()["ines"])
    assert "Not measured yet" in client.get(address).content.decode()
    assert client.post(f"{address}measure/", follow=True).status_code == 200
    run_job(Job.objects.get(kind=services.MEASURE_JOB).pk)

    sent: dict[str, Any] = client.get(api).json()
    page = client.get(address).content.decode()
    assert "<script>alert(1)" not in page
    assert "<b>model</b>" not in page
    for measure in sent["rounds"][0]["measures"]:
        assert measure["name"] in page
        assert f"{measure['figure']['value']:.2f}" in page
    assert "pairs part" in page
    assert {line["gold"] for line in sent["rounds"][0]["annotators"]} == {0}
    assert "Known answers right" not in page

    client.force_login(seed.adjudicator())
    assert {line["gold"] for line in client.get(api).json()["rounds"][0]["annotators"]} == {1}
    assert "Known answers right" in client.get(address).content.decode()
    assert "After discussion" in client.get(f"{address}?round=2").content.decode()


def test_an_adjudicator_who_labels_now_is_not_told_of_known_answers(client: Client) -> None:
    session = seed.ordinary()
    measured(session)
    seed.labelled(session, list(session.items.filter(position=2)), {"ines": [31]}, number=3, is_open=True)
    client.force_login(seed.adjudicator())
    api, page = (
        client.get(address).content.decode()
        for address in (
            f"/api/v1/label-sessions/{session.pk}/agreement",
            f"/taxonomy/sessions/{session.pk}/agreement/",
        )
    )
    assert '"gold": 1' not in api.replace('"gold":1', '"gold": 1')
    assert "Known answers right" not in page
    assert "Round 3 is open and blind" in page
    session.members.set(seed.people().values())
    assert "Known answers right" in client.get(f"/taxonomy/sessions/{session.pk}/agreement/").content.decode()
