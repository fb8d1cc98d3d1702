"""One of everything that an address may name, and what stands in each address."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.core.files.base import ContentFile
from django.utils import timezone

from synthesis.drafts import ToolRate, ToolRepair
from tests.agreement import seed as labelled
from tests.assessment import rows as assessed
from tests.datasets.dataset_support import carry_out
from tests.fixtures import pages_seed, replay_seed, runs_seed
from training.config import EvaluationJob
from webapp.accounts.models import Role, User
from webapp.accounts.tokens import create_token
from webapp.batches.models import Batch, Body, LLMCall
from webapp.common.content_store import store_values
from webapp.common.lists.models import SavedView
from webapp.datasets.export.services import start_export
from webapp.datasets.file_uploads import store_file
from webapp.datasets.models import StoredFile
from webapp.datasets.services import create_file_dataset
from webapp.edits import services
from webapp.endpoints.models import Endpoint
from webapp.environments.models import CheckerMeasure, EdgeJudgement, ToolEdge, Version
from webapp.jobs.models import JobState
from webapp.review.models import Remark, ReviewDecision, ReviewQueue
from webapp.runs.models import RolloutFile, TrainingAlert, TrainingJob
from webapp.scenarios.models import Audit, Playground
from webapp.taxonomy.models import Decision, Grouping, Node, NodeCounts, Theme, ThemeSource, TreeChange
from webapp.trajectories.models import PlaygroundFork, Rollout, Trajectory
from webapp.trajectories.rollouts.spec import Spec
from webapp.webhooks.models import Webhook
from webapp.workers.models import Deployment

HELD_ROUTES = ("desk", "submit", "fill", "draft", "heartbeat", "skip", "leave")
ITEM_ROUTES = ("item", "take", "settle", "unsettle", "discuss")


def a_rollout(run: Trajectory) -> Rollout:
    """A queued one, with one attempt."""
    job = pages_seed.job(JobState.QUEUED)
    row = Rollout.objects.create(
        job=job, task=run.task, revision=run.revision, policy="reference", spec=Spec().model_dump(), total=1
    )
    row.attempts.create(ordinal=0)
    return row


def a_forked_playground(run: Trajectory, owner: User) -> Playground:
    """After the first step of an attempt."""
    play = Playground.objects.create(
        user=owner, version=run.revision.scenario.version, revision=run.revision, now=run.now
    )
    PlaygroundFork.objects.create(playground=play, parent=run, forked_at=1)
    return play


def an_edge(version: Version) -> ToolEdge:
    """Of a graph of tools that was judged."""
    EdgeJudgement.objects.create(version=version, model="a model", judged_at=timezone.now())
    return ToolEdge.objects.create(version=version, kind="strong", source="look", target="read", parameter="key")


def a_grouping() -> Grouping:
    """Of nothing, with its decision."""
    decision = Decision.objects.create(kind="grouping", words="Grouped no themes")
    return Grouping.objects.create(decision=decision, threshold=0.8, vectoriser="none", themes=0, groups=0, folded=0)


def a_tree_change(node: Node) -> TreeChange:
    """That changed nothing."""
    delta: dict[str, Any] = {"nodes": [], "hung": {}}
    return TreeChange.objects.create(kind="rename", words="Renamed nothing", delta=delta, node_ids=[node.pk])


BULK_ACTS = {
    "jobs:bulk": {"act": "cancel"},
    "batches:bulk": {"act": "pause"},
    "datasets:bulk": {"act": "archive"},
    "datasets:bulk_files": {"act": "delete"},
}


def a_batch() -> dict[str, Any]:
    """A draft with one theme, and a call."""
    batch = Batch.objects.create(name="a batch")
    item = batch.items.create(level="theme", path="a-theme", stage="discover")
    item.runs.create(stage="discover", state="kept")
    [request] = store_values(Body, [{}])
    call = LLMCall.objects.create(
        key="0" * 64, batch=batch, path="a-theme", role="author", stage="plan", request=request
    )
    return {"batch": batch, "item": item, "call": call}


def a_review(run: Trajectory) -> dict[str, Any]:
    """A queue with one item that the annotator holds, a decision and a remark."""
    queue = ReviewQueue.objects.create(name="a queue", kind="task", filled_at=timezone.now())
    item = queue.items.create(task=run.task, overlap=2, free=1)
    owner = User.objects.get(role=Role.ANNOTATOR)
    held = item.assignments.create(queue=queue, user=owner, place=1, expires_at=timezone.now() + timedelta(hours=1))
    decision = ReviewDecision.objects.create(task=run.task, revision=run.revision, user=owner, verdict="approve")
    remark = Remark.objects.create(task=run.task, remark="comment", text="So so.", user=owner)
    return {"queue": queue, "review_item": item, "held": held, "review_decision": decision, "remark": remark}


def a_labelling(owner: User) -> dict[str, Any]:
    """A session that was measured, with a discussion; and an open one of which the annotator holds and labelled one."""
    measured = labelled.measured()
    item = measured.items.get(position=2)
    thread = item.discussions.create(by=owner)
    open_one = labelled.session("an open label session", state="open")
    first, second = labelled.items(open_one, 2)
    found = labelled.labelled(open_one, [first, second], {owner.username: [11, 0]}, is_open=True)
    ask = found.asks.get(item=second)
    end = timezone.now() + timedelta(hours=1)
    held = ask.reservations.create(round=found, user=owner, place=1, expires_at=end)
    label = found.labels.get()
    return {
        "label_session": measured, "label_item": item, "thread": thread, "reservation": held, "own_label": label,
    }  # fmt: skip


def a_training(run: Trajectory) -> dict[str, Any]:
    """A job after two steps, its dataset, an uploaded file, and an attempt whose file is gone."""
    job = runs_seed.training_job(steps=2, environments=1)
    checkpoint = job.checkpoints.create(attempt=1, step=2)
    deployment = Deployment.objects.create(job=job, checkpoint=checkpoint, model=f"ft:{job.public_id}:step-2")
    file = RolloutFile.objects.create(job=job, attempt=1, step=1, sha256="0" * 64, count=1)
    rollout = file.rollouts.create(index=0, row="a-row", task=run.task, revision=run.revision, outcome="failed")
    stored = StoredFile.objects.create(filename="rows.jsonl", kind="tasks", bytes=2)
    alert = TrainingAlert.objects.create(job=job, rule="kl", message="Large.", value=1, last_value=1, from_step=1)
    webhook = Webhook.objects.create(name="pager", url="https://hooks.example/envarium")
    evaluation = an_evaluation(run)
    return {
        "training": job,
        "rollout_of_step": rollout,
        "stored_file": stored,
        "deployment": deployment,
        "evaluation": evaluation,
        "alert": alert,
        "webhook": webhook,
    }


def an_evaluation(run: Trajectory) -> TrainingJob:
    """After a report at each of two horizons, each of a solved, a failed and a lost attempt at one task."""
    job = TrainingJob.objects.create(
        method="evaluation",
        model="endpoint:1/a model",
        preset="defaults",
        dataset=runs_seed.dataset("Held-out tasks"),
        config=EvaluationJob(repeats=3, horizons=(2, 5)).model_dump(mode="json"),
        state="succeeded",
        step=2,
        total_steps=2,
    )
    for step, horizon in enumerate((2, 5), 1):
        file = RolloutFile.objects.create(job=job, attempt=1, step=step, sha256="0" * 64, count=3)
        for ordinal, (outcome, reward) in enumerate((("solved", 1.0), ("failed", 0.25), ("infra_error", None))):
            masked = "" if reward is not None else "infra_error"
            told = {"row": "a-row", "outcome": outcome, "reward": reward, "masked": masked, "horizon": horizon}
            file.rollouts.create(index=ordinal, ordinal=ordinal, task=run.task, revision=run.revision, **told)
    return job


def a_dataset() -> dict[str, Any]:
    """Of an uploaded file, frozen by its job; the file, and an export."""
    line = b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}'
    file = store_file(None, ContentFile(line, name="talks.jsonl"))
    dataset = carry_out(create_file_dataset(None, file))
    return {"dataset": dataset, "file": file, "export": start_export(None, dataset, "trl", "jsonl")[0]}


def objects() -> dict[str, Any]:
    """One of everything that an address may name."""
    run = replay_seed.make(replay_seed.ordinary())
    version = run.task.scenario.version
    node = Node.objects.create(level=1, name="Health", path="health")
    NodeCounts.objects.create(node=node)
    owner = pages_seed.person(Role.ANNOTATOR)
    assessment = assessed.saved(4, version=version)
    failed = ToolRate(tool="look", failed=1)
    repair = ToolRepair(tool="look", outcome="repaired", before=failed, source="def look(): ...", source_before="pass")
    assessment.repairs = [repair.model_dump(mode="json")]
    assessment.save(update_fields=["repairs"])
    audit = Audit.objects.create(
        revision=run.revision, key="0" * 64, verifier_hash="0" * 64, audit_version=1, state="green"
    )
    return {
        "run": run,
        "version": version,
        "tool": version.tools.first() or version.tools.create(position=0, name="look", kind="query"),
        "edge": an_edge(version),
        "check": run.revision.checks.get(position=0),
        "forked_play": a_forked_playground(run, owner),
        "play": Playground.objects.create(user=owner, version=version, now="2025-01-01T09:00:00+00:00"),
        "job": pages_seed.job(JobState.QUEUED),
        "rollout": a_rollout(run),
        "node": node,
        "tree_change": a_tree_change(node),
        "theme": Theme.objects.create(node=node, source="made", key="t", name="A theme", content_hash="0" * 64),
        "source": ThemeSource.objects.create(name="made", origin="tasks"),
        "grouping": a_grouping(),
        "endpoint": Endpoint.objects.create(name="an endpoint", base_url="http://127.0.0.1:9/v1"),
        "token": create_token(None, owner, "a test", ["read"])[0],
        "owner": owner,
        "view": SavedView.objects.create(owner=owner, list_name="tasks", name="a view", query="audit=red"),
        "audit": audit,
        "assessment": assessment,
        "case": assessment.cases.get(position=0),
        "measure": CheckerMeasure.objects.create(
            model="a model", mutants=1, found=1, warned=0, sound=1, alarms=0, unusable=0
        ),
        **a_batch(),
        **a_dataset(),
        **a_training(run),
        **a_review(run),
        "edit": services.start_task_edit(owner, run.task),
        **a_labelling(owner),
    }


def edit_arguments(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Those of edits: of one itself, and of what one is begun from."""
    tool, version = {"pk": made["tool"].pk}, {"pk": made["version"].pk}
    return {
        "edits": {"pk": made["edit"].pk},
        "edits:start_tool": tool,
        "edits:repair": tool,
        "edits:start_program": version,
        "edits:restore_program": version,
        "edits:start_task": {"pk": made["run"].task_id},
        "edits:restore_task": {"pk": made["run"].revision_id},
    }


def labelling_arguments(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Those of labelling sessions."""
    return {
        "labelling": {"pk": made["label_session"].pk, "kind": "place"},
        **{f"labelling:{name}": {"pk": made["reservation"].pk} for name in HELD_ROUTES},
        **{f"labelling:{name}": {"pk": made["label_item"].pk} for name in ITEM_ROUTES},
        "labelling:undo": {"pk": made["own_label"].pk},
        "labelling:post": {"pk": made["thread"].pk},
    }


def taxonomy_arguments(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "taxonomy": {"pk": made["node"].pk},
        "taxonomy:theme": {"pk": made["theme"].pk},
        **{
            f"taxonomy:{name}": {"pk": made["theme"].pk}
            for name in ("keep_apart", "neighbours", "fold_into", "place_theme")
        },
        "taxonomy:choose_theme": {"pk": made["theme"].pk},
        **{f"taxonomy:{name}": {"pk": made["tree_change"].pk} for name in ("tree_change", "undo_change")},
        "taxonomy:change": {"pk": made["node"].pk, "kind": "rename"},
        "batches:for_node": {"pk": made["node"].pk},
        "taxonomy:source": {"pk": made["source"].pk},
        "taxonomy:undo_decision": {"pk": made["grouping"].decision_id},
    }


def environment_arguments(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "environments": {"pk": made["run"].environment_id, "a": 1, "b": 1},
        "environments:of_node": {"pk": made["node"].pk},
        **{f"environments:{name}": {"pk": made["assessment"].pk} for name in ("assessment", "start_rerun")},
        "environments:case": {"pk": made["case"].pk},
        "environments:repair": {"pk": made["assessment"].pk, "number": 0},
        **{f"environments:{name}": {"pk": made["version"].pk} for name in ("version_run", "start_version_run")},
        "environments:checker": {"pk": made["measure"].pk},
        "environments:add_edge": {"pk": made["version"].pk},
        **{f"environments:{name}_edge": {"pk": made["edge"].pk} for name in ("remove", "restore")},
    }


def route_arguments(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each route's arguments are: by route name, else by its namespace."""
    run = made["run"]
    return {
        "accounts": {"pk": made["owner"].pk},
        "accounts:revoke_token": {"pk": made["token"].pk},
        "agreement": {"pk": made["label_session"].pk},
        "batches": {"pk": made["batch"].pk},
        "batches:item": {"pk": made["item"].pk},
        "batches:keep": {"pk": made["item"].pk},
        "batches:output": {"pk": made["item"].pk, "stage": "discover"},
        "batches:call": {"pk": made["call"].pk},
        **edit_arguments(made),
        "endpoints": {"pk": made["endpoint"].pk},
        **environment_arguments(made),
        "jobs": {"pk": made["job"].pk},
        **BULK_ACTS,
        **labelling_arguments(made),
        "lists": {"list_name": "tasks", "pk": made["view"].pk},
        "review": {"pk": made["queue"].pk, "kind": "task"},
        "review:item": {"pk": made["review_item"].pk},
        "review:hold": {"pk": made["review_item"].pk},
        "review:assign": {"pk": made["review_item"].pk},
        "review:decide_item": {"pk": made["review_item"].pk},
        **{f"review:{name}": {"pk": made["held"].pk} for name in ("heartbeat", "skip", "unskip", "give_back", "send")},
        "review:undo": {"pk": made["review_decision"].pk},
        "review:make_gold": {"pk": made["review_decision"].pk},
        "review:undo_group": {"group": uuid.UUID(int=1)},
        "review:resolve_remark": {"pk": made["remark"].pk},
        "review:tool_verdicts": {"pk": made["version"].pk},
        **{f"review:{name}": {"kind": "task", "pk": run.task_id} for name in ("panel", "decide", "draft", "remarks")},
        "runs": {
            "job": made["training"].public_id,
            "step": 1,
            "task": run.task_id,
            "dataset": made["training"].dataset.public_id,
        },
        "runs:evaluation": {"job": made["evaluation"].public_id},
        "runs:mute_alert": {"pk": made["alert"].pk},
        "webhooks": {"pk": made["webhook"].pk},
        "runs:checkpoint_file": {"job": made["training"].public_id, "pk": 1},
        "runs:rollout": {"job": made["training"].public_id, "pk": made["rollout_of_step"].pk},
        "datasets": {"dataset": made["dataset"].public_id, "side": "train", "export": made["export"].public_id},
        "datasets:file": {"file": made["file"].public_id},
        "scenarios": {"pk": run.task_id, "a": 1, "b": 1},
        "workers": {"job": made["training"].public_id, "deployment": made["deployment"].public_id},
        "scenarios:of_environment": {"pk": run.environment_id},
        "scenarios:state": {"pk": run.task.scenario_id},
        "scenarios:check": {"pk": made["check"].pk},
        "scenarios:try": {"pk": made["version"].pk},
        "scenarios:playground": {"pk": made["play"].pk},
        **taxonomy_arguments(made),
        "trajectories": {"pk": run.pk, "index": 1, "position": 0, "task_pk": run.task_id},
        "trajectories:by_hand": {"pk": made["forked_play"].pk},
        "trajectories:rollout": {"pk": made["rollout"].pk},
    }


def api_objects(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What stands in the paths of the API's operations, by their first part."""
    run = made["run"]
    return {
        "assessments": {"pk": made["assessment"].pk},
        "audits": {"pk": made["audit"].pk},
        "batches": {"pk": made["batch"].pk},
        "batch-items": {"pk": made["item"].pk},
        "llm-calls": {"pk": made["call"].pk},
        "deployments": {"deployment": made["deployment"].public_id},
        "serving": {},
        "datasets": {"dataset": made["dataset"].public_id, "export": made["export"].public_id},
        "edits": {"pk": made["edit"].pk},
        "endpoints": {"pk": made["endpoint"].pk},
        "exports": {"job": made["job"].pk},
        "environments": {"pk": run.environment_id, "number": 1},
        "files": {"file": made["file"].public_id},
        "fine_tuning": {
            "job": made["training"].public_id,
            "checkpoint": made["training"].checkpoints.get().public_id,
            "path": "config.json",
            "pk": made["alert"].pk,
        },
        "training": {
            "worker": made["training"].worker,
            "job": made["training"].public_id,
            "number": 1,
            "step": 1,
            "checkpoint": "ftckpt-none",
            "role": "user",
            "deployment": made["deployment"].public_id,
            "question": "0" * 24,
        },
        "jobs": {"pk": made["job"].pk},
        "label-items": {"pk": made["label_item"].pk},
        "label-reservations": {"pk": made["reservation"].pk},
        "label-sessions": {"pk": made["label_session"].pk},
        "labels": {"pk": made["own_label"].pk},
        "review": {"kind": "task", "pk": run.task_id, "group": uuid.UUID(int=1)},
        "rollouts": {"job": made["rollout"].job_id},
        "scenarios": {"pk": run.task.scenario_id},
        "tasks": {"pk": run.task_id, "number": 1},
        "taxonomy": {"pk": made["node"].pk},
        "themes": {"pk": made["theme"].pk},
        "tree-changes": {"pk": made["tree_change"].pk},
        "theme-decisions": {"pk": made["grouping"].decision_id},
        "theme-groupings": {"pk": made["grouping"].pk},
        "tool-cases": {"pk": made["case"].pk},
        "tools": {"pk": made["tool"].pk},
        "trajectories": {"pk": run.pk, "index": 1},
    }
