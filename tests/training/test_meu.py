"""Masking out erroneous users (AF 3.4), on and off: users that leave out, invent or contradict at a known rate."""

from __future__ import annotations

import itertools
import json
import math
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch

from synthesis.contracts import Attempt, Message, Reward, UserVerdict  # noqa: E402
from synthesis.errors import InputError  # noqa: E402
from synthesis.llm import AskedModel, Endpoint  # noqa: E402
from synthesis.llm.calls import Site, StageCall  # noqa: E402
from synthesis.rollout import STOP  # noqa: E402
from synthesis.scripted.programs import judge as scripted_judge  # noqa: E402
from tests.fixtures.llm import llm_server, say  # noqa: E402
from tests.training import small  # noqa: E402
from training.attempts import TaskAttempt, list_tries, make_attempts  # noqa: E402
from training.config import Advantage, Attempts, Decoding, DynamicSampling, Masking, Reinforcement  # noqa: E402
from training.objective.advantages import row_advantages  # noqa: E402
from training.objective.masks import build_masks  # noqa: E402
from training.objective.rows import build_rows  # noqa: E402
from training.policy import Generation  # noqa: E402
from training.rewards import score_attempt  # noqa: E402
from training.step_record import compute_step_values, describe_unknown_users  # noqa: E402

INTENT = "Book Dan with Roth, first free day."
OPENINGS = (
    INTENT,
    INTENT,
    INTENT,
    f"{INTENT} Thank you.",
    "Dan wants Roth, on the first day that is free.",
    "Book Dan, first free day.",
    f"{INTENT} My card is Z-907.",
    "Book Dan with Ines, first free day.",
)
"""What users open with: the first four recite their intent, the judge gives no usable verdict on the fifth, and the
last three leave out, invent and contradict: 3 of 8 are at fault."""
OFF, ON = Masking(meu=False), Masking(meu=True)


class Listening(small.ScriptedEngine):
    """Solves the task if the user recited the intent and nothing more, asks for what is missing, else gives up."""

    async def generate(self, ids: Any, most: int, seed: str) -> Generation:
        heard = small.tokenizer().decode(list(ids))
        key = seed.rsplit(":", 3)[1]
        recited = INTENT in heard and "Thank you." not in heard and "Z-907" not in heard
        words = "Done." if "Roth" in heard else "With whom?"
        solution = small.solution(small.tasks()[0])
        self.script = {key: solution if recited else [small.says(words)] * len(solution)}
        return await super().generate(ids, most, seed)


def attempts(**limits: Any) -> list[TaskAttempt]:
    """Eight attempts, one an opening, judged by the scripted judge."""
    task = small.tasks()[0]
    assert task.rollout.instruction == INTENT
    row = small.rows()[0].model_copy(update={"setting": "conversation"})
    opened, lock = itertools.count(), threading.Lock()

    def act_user(request: dict[str, Any]) -> Any:
        if len(request["messages"]) > 2:
            return say(STOP)
        with lock:
            return say(OPENINGS[next(opened)])

    def act_judge(request: dict[str, Any]) -> Any:
        words = request["messages"][0]["content"]
        site = Site(role="judge", stage="judge_run", item="item", theme="theme")
        call = StageCall(site=site, messages=(Message(role="user", content=words),))
        return say("I would rather not say." if "Dan wants" in words else scripted_judge.write_reply(call))

    with llm_server(act_user) as users, llm_server(act_judge) as judges:
        user = AskedModel(Endpoint(name="user", base_url=users.url), "user-model")
        judge = AskedModel(Endpoint(name="judge", base_url=judges.url), "judge-model")
        table = small.table(user=user, judge=judge, judges_user=True)
        decoding = Decoding(turn_tokens=48, trajectory_tokens=8192)
        made = make_attempts(
            table, Listening({}), list_tries([row], len(OPENINGS)), turns=6, decoding=decoding, seed="s"
        )
        for request in judges.requests:
            shown = json.dumps(request["messages"])
            assert INTENT in shown
            assert not any(word in shown for word in ("next_free", "reward", "Tuesday")), "it sees the talk alone"
    return made


def advantages(made: list[TaskAttempt], masking: Masking) -> list[float]:
    scores = [score_attempt(one.attempt, "all_or_nothing", masking) for one in made]
    rows = build_rows(scores, ["task"] * len(made), ["clinic"] * len(made))
    return row_advantages(rows, build_masks(rows, DynamicSampling()), Advantage(kind="group")).tolist()


def test_faults_leave_the_baseline_and_nothing_else() -> None:
    """AF Eq. 2 and 3. Off: 3 of 8 earn 1, mean 3/8, deviation sqrt(15/56). On: 3 of 5 do, mean 3/5, sqrt(3/10)."""
    made = attempts()
    findings = [one.attempt.user_fault for one in made]
    assert sorted(findings) == ["fault"] * 3 + ["none"] * 4 + ["unknown"]
    solved = [one.attempt.outcome == "solved" for one in made]
    assert sum(solved) == 3
    for one in made:
        assert one.attempt.reward is not None, "what it earned is kept beside the verdict"
        assert one.attempt.outcome != "infra_error"
    off = {True: (1 - 3 / 8) / (math.sqrt(15 / 56) + 1e-4), False: -3 / 8 / (math.sqrt(15 / 56) + 1e-4)}
    assert advantages(made, OFF) == pytest.approx([off[one] for one in solved])
    on = {True: (1 - 3 / 5) / (math.sqrt(3 / 10) + 1e-4), False: -3 / 5 / (math.sqrt(3 / 10) + 1e-4)}
    expected = [0.0 if found == "fault" else on[one] for found, one in zip(findings, solved, strict=True)]
    assert advantages(made, ON) == pytest.approx(expected)
    words = describe_unknown_users([(one, score_attempt(one.attempt, "score", ON)) for one in made])
    assert words.startswith("Whether the simulated user erred is not known of 1 of 8 conversations")
    points = []
    for masking in (OFF, ON):
        values = compute_step_values(
            [(one, score_attempt(one.attempt, "all_or_nothing", masking)) for one in made], 1.0
        )
        points.append((values["reward"], values["masked"]))
        assert (values["user_fault"], values["user_unknown"]) == (3 / 7, 1 / 8)
    assert points == [(3 / 8, 0.0), (3 / 5, 3 / 8)]


def course(masking: Masking, rate: float = 0.6, group: int = 40, steps: int = 60) -> list[float]:
    """How often a policy asks its user, step by step, with the expected gradient of a choice between two ways.

    Who asks earns 1, or 0 because of its user, who errs at a known rate; who guesses earns 0.5.
    """
    reward = {ask: Reward(reward=ask, passed=1, total=1, rule="goals", verdicts=()) for ask in (0.0, 0.5, 1.0)}

    def attempt(earned: float, fault: bool) -> Attempt:
        verdict = UserVerdict(finding="fault" if fault else "none")
        return Attempt(policy="p", ending="answered", outcome="failed", reward=reward[earned], user_verdict=verdict)

    logit, taken = 0.0, []
    for _ in range(steps):
        p = 1 / (1 + math.exp(-logit))
        taken.append(p)
        asked = min(group - 1, max(5, round(group * p)))
        erred = round(asked * rate)
        made = [attempt(0.0, True)] * erred + [attempt(1.0, False)] * (asked - erred)
        made += [attempt(0.5, False)] * (group - asked)
        scores = [score_attempt(one, "score", masking) for one in made]
        rows = build_rows(scores, ["task"] * group, ["clinic"] * group)
        masks = build_masks(rows, DynamicSampling())
        found = row_advantages(rows, masks, Advantage(kind="group")).tolist()
        of_asking = [one for one, kept in zip(found[:asked], masks.counted.tolist(), strict=False) if kept]
        of_guessing = found[asked:]
        logit += p * (1 - p) * (sum(of_asking) / len(of_asking) - sum(of_guessing) / len(of_guessing))
    return taken


def test_without_masking_the_curve_falls_though_asking_is_right() -> None:
    """AF Figure 3b. A user that errs at 0.6 makes asking worth 0.4 of 1, below the 0.5 of a guess; masked, it is 1."""
    off, on = course(OFF), course(ON)
    assert off[-1] < 0.4 < 0.5 == off[0]
    assert on[-1] > 0.9
    assert all(later >= earlier for earlier, later in itertools.pairwise(on))
    assert all(later <= earlier for earlier, later in itertools.pairwise(off))


def test_users_that_are_to_be_judged_need_a_judge() -> None:
    row = small.rows()[0].model_copy(update={"setting": "conversation"})
    user = AskedModel(Endpoint(name="user", base_url="http://127.0.0.1:9/v1"), "user-model")
    with pytest.raises(InputError, match=r"judge: whether simulated users erred"):
        make_attempts(
            small.table(user=user, judges_user=True), Listening({}), [(row, 0)],
            turns=2, decoding=Decoding(turn_tokens=16, trajectory_tokens=512), seed="s",
        )  # fmt: skip
    assert Reinforcement().judges_user
    assert not Reinforcement(masking=OFF).judges_user
    assert Reinforcement(masking=OFF, attempts=Attempts(judges_user=True)).judges_user
