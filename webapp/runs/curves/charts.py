"""Charts of a training job: their groups, and the keys of each chart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.http import QueryDict

from training.metrics import NAMES
from webapp.common.query_params import Params
from webapp.runs.models import MetricKey

HELD_OUT = "evaluation/environment/"
PREFIXES = {"environment": "Environments", "node": "Nodes of the taxonomy", "check": "Checks"}
MEASURES = ("reward", "success", "length", "turns", "tool_errors", "program_errors", "reward_std")
SHOWN_PARTS = 6
MOST_PARTS = 12
LISTED_PARTS = 300
MOST_OTHERS = 24


@dataclass(frozen=True)
class CurveLine:
    key: str
    label: str
    spread: str = ""
    """The key of a standard deviation that is drawn as a band around the line."""
    rare: bool = False
    """It has a point only now and then: drawn with markers."""
    over: str = ""
    """The key of the number of tasks that its means are of: by it they get an interval."""
    deviation: str = ""
    """The key of the standard deviation over those tasks; without it means are bounded as if they were shares."""


@dataclass(frozen=True)
class Chart:
    name: str
    title: str
    lines: tuple[CurveLine, ...]
    unit: str = ""
    stacked: bool = False
    share: bool = False
    """Its values are shares from 0 to 1."""

    @property
    def keys(self) -> list[str]:
        return [key for line in self.lines for key in (line.key, line.spread, line.over, line.deviation) if key]


@dataclass(frozen=True)
class ChartGroup:
    name: str
    title: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class CurveChoice:
    """Choice of groups, measure, parts and range of steps that an address names; without groups the overview."""

    groups: tuple[str, ...] = ()
    measure: str = "reward"
    parts: dict[str, tuple[str, ...]] | None = None
    """Of each prefix, the parts that were chosen; without an entry the first few are drawn."""
    low: int | None = None
    high: int | None = None


def _make_chart(name: str, *, title: str = "", share: bool = False) -> Chart:
    metric = NAMES[name]
    return Chart(name, title or metric.label, (CurveLine(name, title or metric.label),), metric.unit, share=share)


_RULES: tuple[ChartGroup, ...] = (
    ChartGroup(
        "reward",
        "Reward and success",
        (
            Chart(
                "reward",
                "Reward",
                (
                    CurveLine("reward", "attempts", "reward_std"),
                    CurveLine(
                        "evaluation/reward", "held out", "", True, "evaluation/tasks", "evaluation/reward_deviation"
                    ),
                ),
            ),
            Chart(
                "success",
                "Success",
                (
                    CurveLine("success", "attempts"),
                    CurveLine("evaluation/success", "held out", rare=True, over="evaluation/tasks"),
                    CurveLine(
                        "evaluation/sampled/success", "held out, sampled", rare=True, over="evaluation/sampled/tasks"
                    ),
                ),
                share=True,
            ),
        ),
    ),
    ChartGroup("parts", "By environment, node and check", ()),
    ChartGroup(
        "attempts",
        "Attempts",
        (
            Chart("outcome", "Outcomes", (), stacked=True, share=True),
            _make_chart("length", title="Length"),
            Chart("turns", "Turns", (CurveLine("turns", "mean turns"), CurveLine("horizon", "horizon")), "turns"),
            _make_chart("tool_errors", title="Tool errors", share=True),
            _make_chart("program_errors", title="Ended by programs", share=True),
            _make_chart("masked", title="Masked attempts", share=True),
            Chart(
                "user_fault",
                "Simulated user",
                (CurveLine("user_fault", "at fault"), CurveLine("user_unknown", "no usable verdict")),
                share=True,
            ),
            _make_chart("flat_groups", title="Groups without variance", share=True),
            _make_chart("draws", title="Draws"),
        ),
    ),
    ChartGroup(
        "policy",
        "Policy and loss",
        (
            _make_chart("loss", title="Loss"),
            _make_chart("kl", title="KL"),
            _make_chart("entropy", title="Entropy"),
            Chart(
                "clipped",
                "Clipped",
                (
                    CurveLine("clipped_low", "from below"),
                    CurveLine("clipped_high", "from above"),
                    CurveLine("clipped_dual", "by the dual clip"),
                ),
                share=True,
            ),
            _make_chart("grad_norm", title="Gradient norm"),
            _make_chart("learning_rate", title="Learning rate"),
            _make_chart("advantage_std", title="Spread of the advantages"),
            _make_chart("token_accuracy", title="Token accuracy", share=True),
            _make_chart("sampling_gap", title="Gap between sampling and training"),
            _make_chart("sampling_truncated", title="Corrections for it that were cut"),
            _make_chart("policy_age", title="Age of the policy that drew"),
        ),
    ),
    ChartGroup(
        "machine",
        "Machine",
        (
            _make_chart("tokens_per_s", title="Throughput"),
            Chart(
                "time",
                "Time of a step",
                (CurveLine("step_s", "whole step"), CurveLine("rollout_s", "its attempts")),
                "s",
            ),
            Chart(
                "shares",
                "Time spent outside the model",
                (CurveLine("environment_share", "environments"), CurveLine("verification_share", "verifiers")),
                share=True,
            ),
            _make_chart("gpu_memory", title="GPU memory"),
        ),
    ),
    ChartGroup("other", "Other", ()),
)
ALL = "all"
"""In place of headings: every one."""
GROUPS = {group.name: group.title for group in _RULES}
_CLAIMED = {key for group in _RULES for chart in group.charts for key in chart.keys}


def parse_choice(query: QueryDict) -> CurveChoice:
    """Return the choice that a query string names; what does not fit is left out."""
    params = Params(query)
    group_names = [name for name in params.texts("show") if name in GROUPS]
    named = {prefix: tuple(params.texts(prefix, 300)[:MOST_PARTS]) for prefix in PREFIXES}
    if not group_names and (params.text("measure") or any(named.values())):
        group_names = ["parts"]
    return CurveChoice(
        tuple(GROUPS) if ALL in params.texts("show") else tuple(group_names),
        params.choice("measure", MEASURES, "reward"),
        {prefix: parts for prefix, parts in named.items() if parts},
        *params.span("from", "to"),
    )


def list_parts(keys: Iterable[MetricKey], prefix: str, measure: str) -> list[tuple[str, float | None]]:
    """Return parts below a prefix with their last number, the worst first: those that a person looks for."""
    begin, end = f"{prefix}/", f"/{measure}"
    parts = [
        (key.name[len(begin) : -len(end)], key.last_value)
        for key in keys
        if key.name.startswith(begin) and key.name.endswith(end) and len(key.name) > len(begin) + len(end)
    ]
    return sorted(parts, key=lambda part: (part[1] is None, part[1] or 0.0, part[0]))


def get_measure(prefix: str, choice: CurveChoice) -> str:
    """Return the measure to draw: a check has only one, how many attempts passed it."""
    return "success" if prefix == "check" else choice.measure


def build_groups(
    keys: Sequence[MetricKey], choice: CurveChoice, names: Mapping[str, str] | None = None
) -> list[ChartGroup]:
    """Return the charts that this job has numbers for, by heading. `names` are words for checks."""
    known = {key.name for key in keys}
    groups: list[ChartGroup] = []
    for group in _RULES:
        charts = [_keep_known_lines(chart, known) for chart in group.charts]
        if group.name == "parts":
            charts = [_build_part_chart(keys, prefix, choice, names or {}) for prefix in PREFIXES]
            charts.insert(1, _build_held_out_chart(keys, choice))
        elif group.name == "other":
            charts = [Chart(name, name, (CurveLine(name, name),)) for name in _list_other_keys(known)]
        elif group.name == "attempts":
            charts[0] = _build_outcome_chart(known)
        drawn_charts = tuple(chart for chart in charts if chart.lines)
        if drawn_charts:
            groups.append(ChartGroup(group.name, group.title, drawn_charts))
    return groups


def _keep_known_lines(chart: Chart, known: set[str]) -> Chart:
    def key_if_known(key: str) -> str:
        return key if key in known else ""

    lines = tuple(
        replace(
            line, spread=key_if_known(line.spread), over=key_if_known(line.over), deviation=key_if_known(line.deviation)
        )
        for line in chart.lines
        if line.key in known
    )
    return Chart(chart.name, chart.title, lines, chart.unit, chart.stacked, chart.share)


def _build_outcome_chart(known: set[str]) -> Chart:
    """Chart shares that add up to one; a user's error is a flag beside an outcome, so it has no part in the stack."""
    names = sorted(key for key in known if key.startswith("outcome/") and key != "outcome/user_error")
    order = ["solved", "failed", "truncated", "agent_error", "program_error", "infra_error", "cancelled"]
    names.sort(key=lambda key: order.index(key[8:]) if key[8:] in order else len(order))
    lines = tuple(CurveLine(key, key[8:].replace("_", " ")) for key in names[:MOST_PARTS])
    return Chart("outcome", "Outcomes", lines, stacked=True, share=True)


def _build_part_chart(keys: Sequence[MetricKey], prefix: str, choice: CurveChoice, told: Mapping[str, str]) -> Chart:
    measure = get_measure(prefix, choice)
    parts = list_parts(keys, prefix, measure)
    chosen = (choice.parts or {}).get(prefix)
    names = [name for name, _ in parts if chosen is None or name in chosen]
    names = sorted(names[: SHOWN_PARTS if chosen is None else MOST_PARTS])
    words = {name: told.get(name, name) if prefix == "check" else name for name in names}
    lines = tuple(CurveLine(f"{prefix}/{name}/{measure}", words[name]) for name in names)
    share = measure in ("success", "tool_errors", "program_errors")
    title = "Passed by check" if prefix == "check" else f"{measure.replace('_', ' ').capitalize()} by {prefix}"
    return Chart(f"by-{prefix}", title, lines, NAMES[measure].unit, share=share)


def _build_held_out_chart(keys: Sequence[MetricKey], choice: CurveChoice) -> Chart:
    """Chart the environments that were chosen, else those that are worst on the held-out split."""
    parts = list_parts(keys, HELD_OUT.rstrip("/"), "success")
    chosen = (choice.parts or {}).get("environment", ())
    named = [name for name, _ in parts if name in chosen]
    names = sorted(named or [name for name, _ in parts[:SHOWN_PARTS]])[:MOST_PARTS]
    lines = tuple(CurveLine(f"{HELD_OUT}{name}/success", name, rare=True) for name in names)
    return Chart("held-out-by-environment", "Held-out success by environment", lines, share=True)


def _list_other_keys(known: set[str]) -> list[str]:
    prefixes = (*(f"{prefix}/" for prefix in PREFIXES), "outcome/", HELD_OUT)
    return sorted(key for key in known if key not in _CLAIMED and not key.startswith(prefixes))[:MOST_OTHERS]


def hash_shape(charts: Iterable[Chart], small: Sequence[str] = ()) -> str:
    """Return a hash of the charts and their lines: it differs as soon as a page has to be drawn anew."""
    shape = [*([chart.name, *chart.keys] for chart in charts), list(small)]
    return hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:16]
