"""Each measure says what the literature printed for the literature's examples, and says so where it can say nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from synthesis.taxonomy.alpha import krippendorff_alpha, make_tree_difference, nominal_differences
from synthesis.taxonomy.chance import gwet_ac1, raw_agreement
from synthesis.taxonomy.figures import NO_COMMON_ITEM, NO_PAIR, NO_VARIATION, ONE_CATEGORY, Figure
from synthesis.taxonomy.mean_rand import compute_mean_rand
from synthesis.taxonomy.pairs import compute_kappas, compute_rand_indices
from synthesis.taxonomy.ratings import Ratings
from synthesis.taxonomy.reliability import fit_dawid_skene
from tests.agreement import published
from tests.agreement.plain import plain_alpha

TREE = Ratings.of(
    [
        ("ward", "ines", ("health", "wards")),
        ("ward", "marek", ("health", "wards")),
        ("ward", "tove", ("health", "clinics")),
        ("ferry", "ines", ("travel", "ferries")),
        ("ferry", "marek", ("logistics", "freight")),
        ("ferry", "tove", ("logistics", "sea")),
        ("stock", "ines", ("health", "pharmacy", "stock")),
        ("stock", "tove", ("health", "pharmacy", "stock")),
        ("alone", "marek", ("travel",)),
        ("none", "ines", ()),
        ("none", "marek", ("travel", "ferries")),
    ]
)


@pytest.mark.parametrize("name", published.ALPHAS)
def test_alpha_is_what_krippendorff_printed(name: str) -> None:
    observers, printed = published.ALPHAS[name]
    assert krippendorff_alpha(published.ratings(observers), resamples=0).value == pytest.approx(printed, abs=0.0005)


def test_alpha_takes_any_difference() -> None:
    """Krippendorff (2011), C with the interval difference: the squared distance of two numbers."""

    def squared(values: object) -> np.ndarray:
        numbers = np.asarray([float(path[0]) for path in values])  # type: ignore[attr-defined]
        return (numbers[:, None] - numbers[None, :]) ** 2

    found = krippendorff_alpha(published.ratings(published.WITH_GAPS), squared, resamples=0)
    assert found.value == pytest.approx(published.INTERVAL_ALPHA, abs=0.0005)
    assert (found.items, found.pairs) == (11, 55), "the twelfth unit has one value: it pairs with none"


@pytest.mark.parametrize("name", published.AC1S)
def test_ac1_is_what_gwet_printed(name: str) -> None:
    ratings, printed = published.AC1S[name]
    places = len(str(printed).partition(".")[2])
    assert gwet_ac1(ratings, resamples=0).value == pytest.approx(printed, abs=0.5 / 10**places)


@pytest.mark.parametrize("name", published.KAPPAS)
def test_kappa_is_what_cohen_and_gwet_printed(name: str) -> None:
    ratings, printed = published.KAPPAS[name]
    (pair,) = compute_kappas(ratings, resamples=0)
    assert pair.kappa.value == pytest.approx(printed, abs=0.0005)


def test_the_rand_index_is_what_yeung_and_ruzzo_printed() -> None:
    rows = published.crossed(published.GROUPED).rows()
    groupings = {by: {item: path for item, named, path in rows if named == by} for by in ("one", "other")}
    (pair,) = compute_rand_indices(groupings)
    assert pair.rand.value == pytest.approx(published.RAND, abs=0.0005)
    assert (pair.rand.items, pair.rand.pairs, pair.rand.agreeing) == (10, 45, 32)


def test_dawid_and_skene_find_the_rates_of_their_anaesthetists() -> None:
    found = fit_dawid_skene(published.anaesthetists(), smoothing=0)
    assert found
    shares = dict(zip(found.values, found.shares, strict=True))
    assert [shares[grade] for grade in published.GRADES] == pytest.approx(published.GRADE_SHARES, abs=0.005)
    order = [found.values.index(grade) for grade in published.GRADES]
    for annotator, printed in zip(found.annotators, published.GRADE_ERRORS, strict=True):
        rates = np.asarray(annotator.errors)[np.ix_(order, order)]
        assert np.abs(rates - np.asarray(printed)).max() < 1e-6, annotator.name
    assert "".join(path[0] for _, path, _ in found.likely) == published.LIKELY_GRADES  # type: ignore[misc]
    assert found.annotators[0].labels == 135, "the first graded each patient three times"


def test_a_figure_that_cannot_be_says_why() -> None:
    same = published.ratings(("yyyy", "yyyy", "yy.y"))
    assert (krippendorff_alpha(same).value, krippendorff_alpha(same).reason, krippendorff_alpha(same).agreeing) == (
        None,
        NO_VARIATION,
        10,
    )
    assert compute_kappas(same)[0].kappa.reason == NO_VARIATION
    assert raw_agreement(same).value == 1.0
    assert gwet_ac1(same).reason == ONE_CATEGORY
    assert gwet_ac1(same, categories=2).value == 1.0, "no could have been said, and was not"

    apart = published.ratings(("ab..", "..cd"))
    assert {figure.reason for figure in (krippendorff_alpha(apart), gwet_ac1(apart), raw_agreement(apart))} == {NO_PAIR}
    assert compute_kappas(apart)[0].kappa.reason == compute_kappas(apart)[0].raw.reason == NO_COMMON_ITEM

    nobody = Ratings.of([])
    assert krippendorff_alpha(nobody).reason == gwet_ac1(nobody).reason == raw_agreement(nobody).reason == NO_PAIR
    assert compute_kappas(nobody) == ()
    assert fit_dawid_skene(nobody) is None

    one_item = krippendorff_alpha(published.ratings(("a", "b")))
    assert (one_item.value, one_item.low, one_item.high) == (0.0, None, None), "one item resampled is that item again"

    alike = compute_rand_indices({"one": dict.fromkeys("abc", 1), "other": dict.fromkeys("abc", 9), "third": {"a": 1}})
    assert [pair.rand.reason for pair in alike] == [NO_VARIATION, "only one thing that both grouped"] * 1 + [
        "only one thing that both grouped"
    ]


@pytest.mark.parametrize("difference", [nominal_differences, make_tree_difference()])
def test_alpha_of_all_draws_at_once_is_alpha_of_each_draw(difference: object) -> None:
    """Against the definition written out: every two labels of an item, and every two labels of all."""
    found = krippendorff_alpha(TREE, difference, resamples=200, seed=5)  # type: ignore[arg-type]
    value, low, high = plain_alpha(TREE, difference, resamples=200, seed=5)  # type: ignore[arg-type]
    assert found.value == pytest.approx(value, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


def test_the_mean_rand_index_has_the_interval_of_the_jackknife() -> None:
    """Three people group six things. By hand, with scikit-learn's index of what is left without each thing."""
    groupings = {"a": dict(enumerate("xxxyyz")), "b": dict(enumerate("xxyyyz")), "c": dict(enumerate("xxxyzz"))}
    indices = compute_rand_indices(groupings)
    found = compute_mean_rand(groupings, indices)

    def mean(things: list[int]) -> float:
        pairs = [("a", "b"), ("a", "c"), ("b", "c")]
        sides = [([groupings[name][thing] for thing in things] for name in pair) for pair in pairs]
        return float(np.mean([adjusted_rand_score(*pair) for pair in sides]))

    without = [mean([thing for thing in range(6) if thing != left_out]) for left_out in range(6)]
    error = np.sqrt(5 / 6 * sum((one - np.mean(without)) ** 2 for one in without))
    assert found.value == pytest.approx(mean(list(range(6))))
    assert found.low == pytest.approx(found.value - 1.96 * error)
    assert found.high == pytest.approx(min(1, found.value + 1.96 * error))
    two = {name: dict(enumerate("xy")) for name in "ab"} | {"c": dict(enumerate("xx"))}
    assert compute_mean_rand(two, compute_rand_indices(two)).low is None, (
        "without one of two things there is nothing to compare"
    )
    assert compute_mean_rand({"a": {}}, ()).reason == "fewer than two people grouped"


def test_intervals_are_seeded_and_close_in_with_more_items() -> None:
    few = published.ratings(published.NOMINAL)
    many = published.ratings([line * 20 for line in published.NOMINAL])
    assert krippendorff_alpha(few) == krippendorff_alpha(few) != krippendorff_alpha(few, seed=1)
    for measure in (krippendorff_alpha, gwet_ac1, raw_agreement):
        narrow, wide = measure(many), measure(few)
        near, far = (_width(figure) for figure in (narrow, wide))
        assert near < far / 3


def _width(figure: Figure) -> float:
    assert figure.low is not None
    assert figure.high is not None
    assert figure.value is not None
    assert figure.low <= figure.value <= figure.high
    return figure.high - figure.low


def test_an_annotator_who_guesses_is_found_without_an_answer_key() -> None:
    numbers = np.random.default_rng(3)
    truth = numbers.integers(0, 4, 200).tolist()
    said = {
        name: [value if numbers.random() < sure else int(numbers.integers(0, 4)) for value in truth]
        for name, sure in {"ines": 0.9, "marek": 0.8, "tove": 0.1}.items()
    }
    found = fit_dawid_skene(
        Ratings.of((item, by, (value,)) for by, line in said.items() for item, value in enumerate(line))
    )
    assert found
    worth = {annotator.name: annotator.accuracy for annotator in found.annotators}
    assert worth["ines"] > worth["marek"] > 0.75 > 0.5 > worth["tove"]
    right = sum(path == (truth[int(str(item))],) for item, path, _ in found.likely)
    assert right > sum(map(int.__eq__, said["marek"], truth)), "all together know more than the second best"
