"""Forks: another attempt's steps made again, gone on with by hand or by a policy, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import Reference, ReferenceCall
from synthesis.errors import InputError, ReplayMismatch
from synthesis.formats.files import Entry
from synthesis.runtime import get_default_sandbox
from tests.fixtures.llm import Request, Scripted, call, calls, llm_server, say
from tests.rollouts_web.support import OPEN_IT, endpoint_at, make_task, person
from tests.trajectories.loading import has_its_words
from webapp.accounts.models import User
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.jobs import services as jobs
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job, JobState
from webapp.scenarios.models import AuditState, Playground, Task
from webapp.scenarios.playground import services as playgrounds
from webapp.scenarios.playground.live_episodes import CACHE
from webapp.scenarios.references import find_reference, save_reference
from webapp.trajectories.forks import outcomes, services
from webapp.trajectories.forks.pair import build_pair, find_pair_problem
from webapp.trajectories.forks.starts import find_fork_problem
from webapp.trajectories.importer import import_runs
from webapp.trajectories.models import ReplayState, Rollout, Step, Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import ForkOf, Spec
from webapp.trajectories.states import find_broken_steps, load_state_at

pytestmark = pytest.mark.django_db(transaction=True)
WRONG = Reference(
    calls=(
        ReferenceCall(tool="find_box", arguments={"owner": "Ada"}),
        ReferenceCall(tool="open_box", arguments={"box_id": "B-1"}),
        ReferenceCall(tool="open_box", arguments={"box_id": "B-2"}),
    ),
    answer="Both are open.",
)


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
    yield
    CACHE.clear()


def carried_out(job_id: int) -> Job:
    """The job as a worker runs it."""
    claimed = jobs.claim_job(job_id, "test")
    assert claimed is not None
    execute_job(claimed)
    return Job.objects.get(pk=job_id)


def only(rollout: Rollout) -> Trajectory:
    job = carried_out(rollout.job_id)
    assert job.state == JobState.SUCCEEDED, job.error
    row = rollout.attempts.select_related("trajectory__task", "trajectory__revision").get().trajectory
    assert row is not None
    return row


@pytest.fixture
def ann() -> User:
    return person()


@pytest.fixture
def task() -> Task:
    """Its reference opens a box too many."""
    made = make_task(reference=False)
    assert made.current is not None
    save_reference(made.current, WRONG, "test")
    return made


@pytest.fixture
def parent(ann: User, task: Task) -> Trajectory:
    """It breaks a guard at step 3: 0 the task, 1 find, 2 open, 3 open the wrong one, 4 the answer."""
    row = only(start_rollout(ann, task, Spec(policy="reference", attempts=1)))
    assert (row.outcome, row.reward, row.step_count) == ("failed", 0.0, 5)
    return row


def finished(ann: User, play: Playground, answer: str = "Her box B-1 is open.") -> Trajectory:
    play.refresh_from_db()
    row = services.finish_fork(ann, play, play.serial, answer)
    return Trajectory.objects.select_related("task", "revision", "parent").get(pk=row.pk)


def test_a_fork_by_hand_is_scored_and_names_its_parent(ann: User, parent: Trajectory) -> None:
    play = services.begin_fork(ann, parent, 3)
    assert (play.length, play.kept, play.validation, play.seed) == (2, 2, "schema", parent.seed)
    assert play.undone[-1] == {"tool": "open_box", "arguments": {"box_id": "B-2"}, "validation": "schema"}
    with pytest.raises(InputError, match="is the parent's"):
        playgrounds.undo_call(play, play.serial)
    with pytest.raises(InputError, match="begun again from its parent"):
        playgrounds.reset_playground(play)
    playgrounds.run_call(play, 0, "find_box", {"owner": "Bo"}, "schema")
    row = finished(ann, play)
    assert (row.source, row.policy, row.outcome, row.reward) == ("fork", "ann, by hand", "solved", 1.0)
    assert (row.parent_id, row.forked_at, row.revision_id) == (parent.pk, 3, parent.revision_id)
    assert (row.seed, row.now, row.validation, row.live) == (parent.seed, parent.now, "schema", False)
    mine, theirs = list(row.steps.all()), list(parent.steps.all())
    assert [step.patch for step in mine[:3]] == [step.patch for step in theirs[:3]]
    assert [step.tool for step in mine] == ["", "find_box", "open_box", "find_box", ""]
    assert load_state_at(row, 4, verify=True)["boxes"]["B-2"]["open"] is False
    assert find_broken_steps(row) == []
    assert has_its_words(row)
    score = row.scores.get()
    assert (score.source, score.reward, len(score.verdicts)) == ("fork", 1.0, 2)
    assert row.matrix is not None
    assert services.finish_fork(ann, play, play.serial, "Her box B-1 is open.").pk == row.pk
    row.task.refresh_from_db()
    assert row.task.trajectory_count == 2


def test_after_undo_and_a_lost_episode_the_fork_is_the_same(ann: User, parent: Trajectory) -> None:
    play = services.begin_fork(ann, parent, 2)
    playgrounds.run_call(play, 0, "open_box", {"box_id": "B-2"}, "schema")
    play.refresh_from_db()
    playgrounds.undo_call(play, play.serial)
    CACHE.clear()
    play.refresh_from_db()
    playgrounds.run_call(play, play.serial, "open_box", {"box_id": "B-1"}, "source")
    assert play.calls.latest("index").validation == "schema", "as the parent's"
    with pytest.raises(ChangedMeanwhile):
        services.finish_fork(ann, play, 0, "")
    assert finished(ann, play).outcome == "solved"


@pytest.mark.parametrize(
    ("step", "change", "words"),
    [
        (2, {"patch": []}, "at step 2: open_box changes the state otherwise"),
        (1, {"result": {"success": False}}, "at step 1: find_box gives another result"),
        (1, {"ok": False, "error_kind": "raised"}, "at step 1: find_box comes to a result now, and came to raised"),
    ],
)
def test_a_step_that_comes_out_otherwise_refuses_the_fork(
    ann: User, task: Task, parent: Trajectory, step: int, change: dict[str, Any], words: str
) -> None:
    if "patch" in change:
        change = {"patch": [], "change_count": 0}
    parent.steps.filter(index=step).update(**change)
    with pytest.raises(ReplayMismatch, match=words):
        services.begin_fork(ann, parent, 3)
    assert not Playground.objects.exists()
    hand = services.ByHand("ann", (), "", ("a",))
    with pytest.raises(Conflict, match=words):
        services.run_fork(parent, 3, hand, ann)
    rollout = start_rollout(ann, task, Spec(policy="reference", attempts=1, fork=ForkOf(trajectory=parent.pk, step=3)))
    job = carried_out(rollout.job_id)
    assert job.state == JobState.FAILED
    assert words in job.error
    assert set(parent.forks.values_list("outcome", "reward")) == {("infra_error", None)}


def test_a_state_that_is_stored_otherwise_refuses_the_fork(ann: User, parent: Trajectory) -> None:
    parent.steps.filter(index=2).update(patch=[], change_count=1)
    parent.steps.filter(index=1).update(patch=[])
    with pytest.raises(ReplayMismatch, match="the state after step 2 is another one"):
        services.begin_fork(ann, parent, 3)


def test_what_cannot_be_forked_says_why(ann: User, parent: Trajectory) -> None:
    assert "keeps the steps before" in find_fork_problem(parent, 0)
    assert "keeps the steps before" in find_fork_problem(parent, 6)
    assert "ended with the words of step 4" in find_fork_problem(parent, 5)
    assert find_fork_problem(parent, 1) == find_fork_problem(parent, 4) == ""
    Trajectory.objects.filter(pk=parent.pk).update(live=True)
    parent.refresh_from_db()
    assert "still being made" in find_fork_problem(parent, 1)
    Step.objects.filter(trajectory=parent).update(snapshot=None)
    Trajectory.objects.filter(pk=parent.pk).update(live=False)
    parent.refresh_from_db()
    assert "not executed here" in find_fork_problem(parent, 1)


def test_the_reference_is_taken_from_a_fork_that_solves_and_from_no_other(ann: User, parent: Trajectory) -> None:
    worse = services.begin_fork(ann, parent, 4)
    with pytest.raises(Conflict, match="did not earn the whole reward"):
        outcomes.make_reference(ann, finished(ann, worse))
    with pytest.raises(Conflict, match="Only a fork"):
        outcomes.make_reference(ann, parent)
    Task.objects.filter(pk=parent.task_id).update(audit_state=AuditState.GREEN)
    fork = finished(ann, services.begin_fork(ann, parent, 3))
    row, job = outcomes.make_reference(ann, fork)
    assert fork.revision.references.count() == 2
    assert find_reference(fork.revision) == row
    assert (row.source, [one["arguments"] for one in row.calls]) == ("fork", [{"owner": "Ada"}, {"box_id": "B-1"}])
    assert row.answer == "Her box B-1 is open."
    assert (job.kind, job.payload) == ("audit", {"tasks": [parent.task_id]})
    with pytest.raises(Conflict, match="are the reference of this task already"):
        outcomes.make_reference(ann, fork)
    save_reference(fork.revision, WRONG.model_copy(update={"answer": "Newer."}), "test")
    assert "were, before a newer one" in outcomes.find_reference_problem(fork)
    Trajectory.objects.filter(pk=fork.pk).update(replay=ReplayState.DIVERGED)
    fork.refresh_from_db()
    assert "differs" in outcomes.find_reference_problem(fork)


def test_a_fork_at_an_older_revision_becomes_the_reference_where_it_solves_the_new_one(
    ann: User, task: Task, parent: Trajectory
) -> None:
    fork = finished(ann, services.begin_fork(ann, parent, 3))
    stricter = make_task(reference=False, checks=(OPEN_IT.replace("B-1", "B-2"),))
    assert (stricter.pk, stricter.current_id != fork.revision_id) == (task.pk, True)
    fork.task.refresh_from_db()
    with pytest.raises(Conflict, match="At revision 2, the current one, its calls earn 0"):
        outcomes.make_reference(ann, fork)
    assert stricter.current is not None
    assert find_reference(stricter.current) is None
    other = make_task(reference=False, checks=(OPEN_IT,))
    fork.task.refresh_from_db()
    row, _ = outcomes.make_reference(ann, fork)
    assert (row.revision_id, row.revision.number) == (other.current_id, 3)


def test_the_pair_has_the_shared_prefix_once_and_the_right_sides(ann: User, parent: Trajectory) -> None:
    play = services.begin_fork(ann, parent, 3)
    playgrounds.run_call(play, 0, "find_box", {"owner": "Bo"}, "schema")
    fork = finished(ann, play)
    pair = build_pair(fork)
    assert [message["role"] for message in pair["prompt"]] == ["system", "user", *["assistant", "tool"] * 2]
    assert pair["prompt"][1]["content"] == "Ada would like her box to be opened."
    named = [[one["function"]["arguments"] for one in message.get("tool_calls", ())] for message in pair["chosen"]]
    assert named == [[{"owner": "Bo"}], [], []]
    assert pair["chosen"][-1] == {"role": "assistant", "content": "Her box B-1 is open."}
    assert pair["rejected"][0]["tool_calls"][0]["function"]["arguments"] == {"box_id": "B-2"}
    assert pair["rejected"][-1]["content"] == "Both are open."
    assert [tool["function"]["name"] for tool in pair["tools"]][:2] == ["find_box", "open_box"]
    Trajectory.objects.filter(pk=parent.pk).update(reward=1.0)
    again = Trajectory.objects.select_related("parent").get(pk=fork.pk)
    assert "Both earned 1" in find_pair_problem(again)
    Trajectory.objects.filter(pk=parent.pk).update(reward=None)
    again = Trajectory.objects.select_related("parent").get(pk=fork.pk)
    with pytest.raises(Conflict, match="has no reward"):
        build_pair(again)
    Trajectory.objects.filter(pk=fork.pk).update(reward=0.5)
    Trajectory.objects.filter(pk=parent.pk).update(reward=0.75)
    turned = build_pair(Trajectory.objects.select_related("parent").get(pk=fork.pk))
    assert turned["rejected"] == pair["chosen"]


def test_a_model_goes_on_from_the_fork_with_the_parents_history(ann: User, task: Task, parent: Trajectory) -> None:
    def careful(request: Request) -> Scripted:
        done = sum(message["role"] == "tool" for message in request["messages"])
        return call("find_box", owner="Bo") if done == 2 else say("It is open.")

    with llm_server(careful) as server:
        model = f"{endpoint_at(server.url).pk}/scripted-1"
        spec = Spec(model=model, attempts=1, fork=ForkOf(trajectory=parent.pk, step=3))
        row = only(start_rollout(ann, task, spec))
        first = server.requests[0]["messages"]
    assert [message["role"] for message in first] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert "B-1" in first[3]["content"]
    assert len(server.requests) == 2, "the parent's turns cost nothing"
    assert (row.outcome, row.parent_id, row.forked_at, row.source) == ("solved", parent.pk, 3, "rollout")
    assert [step.turn for step in row.steps.all()] == [0, 1, 2, 3, 4]
    assert row.replay == ReplayState.MADE_HERE
    assert find_pair_problem(row) == ""
    assert len(build_pair(row)["prompt"]) == 6


def test_a_fork_has_what_is_left_of_the_turns(ann: User, task: Task, parent: Trajectory) -> None:
    fork = ForkOf(trajectory=parent.pk, step=3)
    with pytest.raises(InputError, match="took 2 turns up to step 3, and 2 are the most"):
        start_rollout(ann, task, Spec(policy="random", attempts=1, max_steps=2, fork=fork))
    row = only(start_rollout(ann, task, Spec(policy="random", attempts=1, calls=50, max_steps=4, fork=fork)))
    assert (row.provenance["ending"], row.call_count) == ("turn_limit", 4)
    other = make_task(key="another")
    with pytest.raises(InputError, match="attempt at another task"):
        start_rollout(ann, other, Spec(policy="random", attempts=1, fork=fork))


def conversing(request: Request) -> Scripted:
    heard = [message["content"] for message in request["messages"] if message["role"] == "user"]
    if request["model"] == "user-1":
        return say("###STOP###" if "open now" in str(request["messages"]) else "I am Ada. Please open my box.")
    if len(heard) == 1 and request["messages"][-1]["role"] == "user":
        return call("find_box", owner="Ada")
    if request["messages"][-1]["role"] == "tool":
        opened = sum(message["role"] == "tool" for message in request["messages"]) > 1
        return say("It is open now.") if opened else say("Which one?")
    return call("open_box", box_id="B-1")


def test_a_talk_goes_on_with_the_parents_user(ann: User, task: Task) -> None:
    with llm_server(conversing) as server:
        endpoint = endpoint_at(server.url, models=("scripted-1", "user-1"))
        spec = Spec(
            model=f"{endpoint.pk}/scripted-1", conversational=True, user_model=f"{endpoint.pk}/user-1", attempts=1
        )
        row = only(start_rollout(ann, task, spec))
        kinds = [step.kind for step in row.steps.all()]
        assert kinds == ["user", "query", "message", "user", "change", "message", "user"]
        asked = len(server.requests)
        fork = spec.model_copy(update={"conversational": False, "fork": ForkOf(trajectory=row.pk, step=4)})
        again = only(start_rollout(ann, task, fork))
        assert (again.conversational, again.outcome) == (True, "solved")
        assert [step.content for step in again.steps.all()] == [step.content for step in row.steps.all()]
        assert len(server.requests) - asked == 3, "two turns of the agent, one of the user"
    with pytest.raises(InputError, match="it is the user's turn"):
        services.begin_fork(ann, row, 3)
    with pytest.raises(InputError, match="The user ended the talk at step 6"):
        services.begin_fork(ann, row, 7)
    play = services.begin_fork(ann, row, 5)
    done = finished(ann, play, "It is open.")
    assert (done.outcome, done.conversational, done.answer) == ("solved", True, "Which one?\n\nIt is open.")


@pytest.mark.parametrize("style", ["react", "call"])
def test_a_fork_speaks_in_its_parents_style(ann: User, task: Task, style: str) -> None:
    def written(request: Request) -> Scripted:
        said = sum(message["role"] == "assistant" for message in request["messages"])
        if said == 2:
            return say("Answer: Open." if style == "react" else "Open.")
        tool, name, value = [("find_box", "owner", "Ada"), ("open_box", "box_id", "B-2")][said]
        if style == "react":
            return say(f'Thought: so\nAction: {tool}\nAction Input: {{"{name}": "{value}"}}')
        return say(f'[{tool}({name}="{value}")]')

    with llm_server(written) as server:
        spec = Spec(model=f"{endpoint_at(server.url).pk}/scripted-1", attempts=1, prompt_style=style)  # type: ignore[arg-type]
        row = only(start_rollout(ann, task, spec))
    assert row.reward == 0
    play = services.begin_fork(ann, row, 2)
    playgrounds.run_call(play, 0, "open_box", {"box_id": "B-1"}, "schema")
    fork = finished(ann, play, "Open.")
    assert fork.outcome == "solved"
    pair = build_pair(fork)
    assert pair["tools"] == []
    assert "B-1" in pair["chosen"][0]["content"]
    assert "B-2" in pair["rejected"][0]["content"]
    assert "Ada" in pair["prompt"][2]["content"]


def test_a_job_carries_out_given_calls_and_a_second_run_finds_the_same(ann: User, parent: Trajectory) -> None:
    job = services.start_fork(ann, parent, 3, (), "Her box B-1 is open.")
    done = carried_out(job.pk)
    assert done.state == JobState.SUCCEEDED, done.error
    assert done.result["outcome"] == "solved"
    assert parent.forks.get().pk == done.result["trajectory"]
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED)
    assert carried_out(job.pk).result == done.result
    assert parent.forks.count() == 1


def test_a_recorded_run_is_forked_with_its_own_seed_and_validation(ann: User, parent: Trajectory) -> None:
    """It was imported, so that no conversation is stored as it was seen: its steps tell it."""
    record = {key: value for key, value in parent.record.items() if key != "conversation"}
    report = import_runs(get_default_sandbox(), [Entry("[0]", record)], "test")
    assert report["created"] == 1, report
    row = Trajectory.objects.select_related("task", "revision").exclude(pk=parent.pk).get()
    assert (row.starts, row.validation, row.replay) == (0, "source", ReplayState.IDENTICAL)
    fork = finished(ann, services.begin_fork(ann, row, 3))
    assert (fork.outcome, fork.validation, fork.seed, fork.parent_id) == ("solved", "source", row.seed, row.pk)
    pair = build_pair(fork)
    assert [message["role"] for message in pair["prompt"]] == ["system", "user", *["assistant", "tool"] * 2]
    assert pair["rejected"][0]["tool_calls"][0]["function"]["arguments"] == {"box_id": "B-2"}
    again = finished(ann, services.begin_fork(ann, fork, 2))
    assert (again.parent_id, again.forked_at, again.reward) == (fork.pk, 2, 0.0)


def test_parallel_calls_are_parted_by_a_fork(ann: User, task: Task) -> None:
    def both(request: Request) -> Scripted:
        if request["messages"][-1]["role"] == "tool":
            return say("Open.")
        return calls(("open_box", {"box_id": "B-1"}), ("open_box", {"box_id": "B-2"}))

    with llm_server(both) as server:
        row = only(start_rollout(ann, task, Spec(model=f"{endpoint_at(server.url).pk}/scripted-1", attempts=1)))
    assert [step.turn for step in row.steps.all()] == [0, 1, 1, 2]
    fork = finished(ann, services.begin_fork(ann, row, 2), "Open.")
    assert (fork.outcome, fork.call_count) == ("solved", 1)
    pair = build_pair(fork)
    assert [message["role"] for message in pair["prompt"]] == ["system", "user"]
    assert [len(pair[side][0]["tool_calls"]) for side in ("chosen", "rejected")] == [1, 2]


def test_a_lost_attempt_of_a_fork_is_begun_again(ann: User, task: Task, parent: Trajectory) -> None:
    rollout = start_rollout(ann, task, Spec(policy="random", attempts=1, fork=ForkOf(trajectory=parent.pk, step=3)))
    row = only(rollout)
    rollout.attempts.update(state="infra_error")
    Job.objects.filter(pk=rollout.job_id).update(state=JobState.FAILED)
    assert jobs.retry_job(rollout.job_id)
    again = only(rollout)
    assert (again.pk, again.starts, again.parent_id) == (row.pk, 2, parent.pk)
