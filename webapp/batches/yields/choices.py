"""Costs and effects of each choice of a batch, counted from stored rows; figures that cannot be counted give the
reason.

The number of queries does not depend on the batch. A figure that needs the other choice (for example rewards that a
missing frame would have made 0) is unknown here: comparing two batches shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection

from synthesis.contracts import SOLVED_AT
from synthesis.pipeline import PIPELINES
from synthesis.stages import StageSettings
from synthesis.tasks.trajectory_filters import USER_FAULT
from webapp.batches.models import AttemptRole, Batch, BatchAttempt, BatchItem, BatchProduct, LLMCall, StageRun
from webapp.batches.spec import BatchSettings
from webapp.environments.models import Assessment
from webapp.scenarios.models import Audit, TaskReference, TaskRevision
from webapp.trajectories.models import Score, Trajectory

HOLDS = '"passed": true'
"""How a verdict that holds is stored; inside of a text its quotes would be escaped."""
ATTEMPTS = f"""
WITH attempt AS (
    SELECT made.role, run.id, run.reward, run.conversational, run.revision_id,
        score.outside, score.verdicts,
        NOT EXISTS (SELECT 1 FROM {TaskReference._meta.db_table} WHERE revision_id = run.revision_id) AS unsolved,
        revision.withheld IS NOT NULL AND revision.withheld::text <> 'null' AS withheld,
        item.state = 'kept' AS kept, item.reason,
        (length(score.verdicts::text) - length(replace(score.verdicts::text, %(holds)s, ''))) / length(%(holds)s)
            AS held
    FROM {BatchAttempt._meta.db_table} made
    JOIN {BatchItem._meta.db_table} item ON item.id = made.item_id
    JOIN {Trajectory._meta.db_table} run ON run.id = made.trajectory_id
    JOIN {TaskRevision._meta.db_table} revision ON revision.id = run.revision_id
    LEFT JOIN LATERAL (
        SELECT outside, verdicts FROM {Score._meta.db_table}
        WHERE trajectory_id = run.id AND source <> 'recorded' ORDER BY id DESC LIMIT 1
    ) score ON true
    WHERE item.batch_id = %(batch)s
), judged AS (
    SELECT *, coalesce(json_array_length(verdicts), 0) AS checks,
        coalesce(json_array_length(outside), 0) > 0 AS is_outside,
        coalesce(reward, 0) >= %(solved)s AS is_solved
    FROM attempt
)
SELECT count(*) FILTER (WHERE is_outside),
    count(*) FILTER (WHERE is_outside AND checks > 0 AND held = checks),
    count(DISTINCT revision_id) FILTER (WHERE is_outside AND checks > 0 AND held = checks),
    avg(reward) FILTER (WHERE teacher AND checks > 0),
    avg(held::float / checks) FILTER (WHERE teacher AND checks > 0),
    count(*) FILTER (WHERE teacher AND NOT kept AND reason = 'not_solved'),
    count(*) FILTER (WHERE teacher AND kept AND coalesce(reward, 0) < %(least)s - 1e-9),
    count(*) FILTER (WHERE teacher AND unsolved AND NOT withheld),
    count(*) FILTER (WHERE teacher AND unsolved AND NOT withheld AND is_solved),
    count(*) FILTER (WHERE teacher AND unsolved AND NOT withheld AND kept),
    count(*) FILTER (WHERE teacher AND conversational),
    count(*) FILTER (WHERE teacher AND conversational AND is_solved),
    count(*) FILTER (WHERE teacher AND conversational AND NOT kept AND reason IN ('user_error', %(fault)s))
FROM judged, LATERAL (SELECT role = %(role)s) is_teacher (teacher)
"""
TASKS = f"""
SELECT count(*) FILTER (WHERE revision.frame IS NOT NULL AND revision.frame::text <> 'null'),
    count(*) FILTER (WHERE NOT EXISTS (
        SELECT 1 FROM {TaskReference._meta.db_table} WHERE revision_id = revision.id))
FROM {BatchProduct._meta.db_table} product
JOIN {BatchItem._meta.db_table} item ON item.id = product.item_id
JOIN {TaskRevision._meta.db_table} revision ON revision.id = product.revision_id
WHERE item.batch_id = %s AND item.level = 'task' AND item.state = 'kept'
"""
RED = f"""
SELECT count(*) FROM {BatchProduct._meta.db_table} product
JOIN {BatchItem._meta.db_table} item ON item.id = product.item_id
JOIN LATERAL (
    SELECT state FROM {Audit._meta.db_table} WHERE revision_id = product.revision_id ORDER BY id DESC LIMIT 1
) audit ON true
WHERE item.batch_id = %s AND item.level = 'task' AND item.state = 'kept' AND audit.state = 'red'
"""
CALLS = f"""
SELECT call.role, call.stage, count(*), coalesce(sum(call.prompt_tokens + call.completion_tokens), 0)::bigint,
    count(*) FILTER (WHERE call.unusable <> '')
FROM {StageRun._meta.db_table} run
JOIN {BatchItem._meta.db_table} item ON item.id = run.item_id
JOIN LATERAL json_array_elements_text(run.calls) made (key) ON true
JOIN {LLMCall._meta.db_table} call ON call.key = made.key
WHERE item.batch_id = %s AND run.stage IN ('assess', 'rollout') AND call.role IN ('tester', 'user') GROUP BY 1, 2
"""
ASSESSED = f"""
SELECT count(DISTINCT made.id), count(*), count(*) FILTER (
        WHERE (rate->>'positive')::int > 0 AND (rate->>'negative')::int > 0),
    (SELECT coalesce(sum(saved), 0) FROM {Assessment._meta.db_table} WHERE id = ANY(array_agg(made.id)))
FROM {Assessment._meta.db_table} made
JOIN LATERAL json_array_elements(made.rates) rate ON true
WHERE made.id IN (
    SELECT product.assessment_id FROM {BatchProduct._meta.db_table} product
    JOIN {BatchItem._meta.db_table} item ON item.id = product.item_id
    WHERE item.batch_id = %s AND item.level = 'theme'
)
"""


@dataclass(frozen=True)
class ChoiceFigure:
    """A figure of the cost or effect of a setting. `sort` is its format; without a `value`, `note` gives the reason."""

    setting: str
    key: str
    words: str
    value: float | None
    sort: str = "number"
    note: str = ""


def read_choice_figures(
    batch: Batch, repaired: Mapping[str, int], stages: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return all figures, as JSON. `repaired` counts kept items by the stage that repaired them."""
    settings = BatchSettings.model_validate(batch.settings).stages
    audited = sum(line["rejected"] for line in stages if line["stage"] == "audit")
    choice_figures = [
        *_list_tester_figures(batch),
        ChoiceFigure("repairs", "programs_repaired", "kept programs that were repaired", repaired.get("assemble", 0)),
        ChoiceFigure(
            "tool_repairs", "environments_mended", "kept environments with repaired tools", repaired.get("assess", 0)
        ),
        *_list_attempt_figures(batch, settings),
        ChoiceFigure("audit_rejects", "audit_rejected", "tasks that the audit left out", audited),
        ChoiceFigure("audit_rejects", "audit_red", "kept tasks whose audit is red", _count_red_audits(batch)),
    ]
    return [asdict(figure) for figure in choice_figures]


def _count_red_audits(batch: Batch) -> int:
    with connection.cursor() as cursor:
        cursor.execute(RED, [batch.pk])
        return int(cursor.fetchone()[0])


def _list_tester_figures(batch: Batch) -> list[ChoiceFigure]:
    """Return figures of calls of testers and simulated users, and of the tools that were tried."""
    with connection.cursor() as cursor:
        cursor.execute(CALLS, [batch.pk])
        call_figures = {(role, stage): figures for role, stage, *figures in cursor.fetchall()}
        cursor.execute(ASSESSED, [batch.pk])
        assessed, tools, both, saved = cursor.fetchone()
    figures = []
    for stage, words in (("test_call", "planned calls"), ("choose_call", "calls that the tester picked")):
        calls, tokens, unusable = call_figures.get(("tester", stage), (0, 0, 0))
        figures += [
            ChoiceFigure("tester", f"{stage}_replies", f"replies of testers for {words}", calls),
            ChoiceFigure("tester", f"{stage}_unusable", f"of them not usable, for {words}", unusable),
            ChoiceFigure("tester", f"{stage}_tokens", f"tokens for {words}", tokens),
        ]
    none = "" if assessed else "No kept environment has an assessment that is known to be of this batch."
    share = both / tools if tools else None
    figures += [
        ChoiceFigure("tester", "tools_both_ways", "tools tried both ways, of kept environments", share, "share", none),
        ChoiceFigure(
            "sequential", "calls_saved", "calls saved by stopping early", saved if assessed else None, note=none
        ),
    ]
    calls, tokens, _ = call_figures.get(("user", "user"), (0, 0, 0))
    return [
        *figures,
        ChoiceFigure("teacher_user", "user_replies", "replies of simulated users", calls),
        ChoiceFigure("teacher_user", "user_tokens", "tokens of simulated users", tokens),
    ]


def _list_attempt_figures(batch: Batch, settings: StageSettings) -> list[ChoiceFigure]:
    """Return the effects of frame, rule, filter, unsolved tasks and users on the stored attempts."""
    values: dict[str, int | float | str] = {
        "batch": batch.pk,
        "holds": HOLDS,
        "solved": SOLVED_AT,
        "least": settings.least_reward,
    }
    values |= {"role": str(AttemptRole.TEACHER), "fault": USER_FAULT}
    with connection.cursor() as cursor:
        cursor.execute(ATTEMPTS, values)
        outside, alone, tasks, scored, share, dropped, low, tried, solved, kept, talks, won, erred = cursor.fetchone()
        cursor.execute(TASKS, [batch.pk])
        framed, unsolved = cursor.fetchone()
    no_frame = "" if framed else "No kept task has a frame: nothing says what one would make 0."
    no_end = "" if scored is not None else "No attempt of a teacher was judged by checks."
    no_talk = "" if talks else "No conversation is stored."

    def build_framed_figure(key: str, words: str, value: int) -> ChoiceFigure:
        return ChoiceFigure("frames", key, words, value if framed else None, note=no_frame)

    missed = 0 if settings.teach_unsolved else unsolved * _count_unsolved_runs(batch.variant, settings)
    return [
        ChoiceFigure("frames", "tasks_framed", "kept tasks with a frame", framed),
        build_framed_figure("frame_zeroed", "attempts with a change outside of it: they earn 0", outside),
        build_framed_figure("frame_alone", "of them with all checks held: 1 without the frame", alone),
        build_framed_figure("frame_tasks", "tasks with such an attempt", tasks),
        ChoiceFigure("rule", "reward_scored", "mean reward of teachers, as scored", scored, "share", no_end),
        ChoiceFigure("rule", "reward_eq10", "mean reward of the same ends by Eq. 10", share, "share", no_end),
        ChoiceFigure("filter_by_reward", "reward_dropped", "attempts dropped for their reward alone", dropped),
        ChoiceFigure("filter_by_reward", "reward_low_kept", "attempts kept below the least reward", low),
        ChoiceFigure("teach_unsolved", "tasks_unsolved", "kept tasks that no solver run solved", unsolved),
        ChoiceFigure("teach_unsolved", "unsolved_missed", "attempts at them that the setting leaves out", missed),
        ChoiceFigure("teach_unsolved", "unsolved_tried", "attempts of teachers at them", tried),
        ChoiceFigure("teach_unsolved", "unsolved_solved", "of these solved", solved),
        ChoiceFigure("teach_unsolved", "unsolved_kept", "of these kept", kept),
        ChoiceFigure("teacher_user", "talks", "conversations stored", talks),
        ChoiceFigure(
            "teacher_user", "talks_solved", "of them solved", won / talks if talks else None, "share", no_talk
        ),
        ChoiceFigure(
            "teacher_user", "talks_erred", "of them dropped because the user erred", erred if talks else None,
            note=no_talk,
        ),
    ]  # fmt: skip


def _count_unsolved_runs(variant: str, settings: StageSettings) -> int:
    """Return the number of attempts that would be made at an unsolved task."""
    taught = settings.model_copy(update={"teach_unsolved": True})
    return len(PIPELINES[variant].barren_parts("task", taught))
