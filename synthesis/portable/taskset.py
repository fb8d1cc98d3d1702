"""Entry point of `verifiers` in a package: its taskset, the harness in which a model attempts its tasks, and both
joined.

The harness is the package's own: the tools of a task are methods of its program in the sandbox, and the reward is the
verdict on the state that they leave. It runs in the process that evaluates or trains; each turn is requested from the
address that `verifiers` provides, which records turns and tokens. A model can reach only the tools.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import verifiers.v1 as vf
from pydantic import SecretStr, model_validator

from synthesis.contracts import Attempt, TrajectoryStep
from synthesis.llm import AskedModel, Endpoint
from synthesis.portable.attempt import Limits, get_reward, make_attempt, score_untouched
from synthesis.portable.task_file import TaskFile
from synthesis.runtime import get_default_sandbox

DATA = Path(__file__).with_name("data")
PACKAGE = __name__.partition(".")[0].replace("_", "-")
SILENT_S = 3_600.0
"""So long a turn may take: under load an engine is silent for minutes, and the rollout's own deadline rules."""
FOREIGN = (
    "no attempt was made by this package's own harness, so there is nothing to reward: leave out "
    "--env.agent.harness.id, and look for a deadline that ended the rollout"
)


@functools.cache
def load_tasks() -> TaskFile:
    """Return the package's tasks."""
    return TaskFile(DATA)


class EnvariumData(vf.TaskData):
    """Data of a task in a trace; state, checks and program stay in the package, under its id."""

    side: Literal["train", "test"] = "train"
    environment: str = ""
    category: str = ""
    setting: Literal["task", "conversation"] = "task"


class EnvariumState(vf.State):
    """The attempt that the harness made, verified."""

    attempt: Attempt | None = None


class EnvariumTask(vf.Task[EnvariumData, EnvariumState, vf.TaskConfig]):
    """A task, rewarded by its own checks."""

    @property
    def key(self) -> str:
        return str(self.data.id)

    @vf.reward(weight=1.0)
    async def reward(self, trace: vf.Trace) -> float:
        if trace.agent.config.harness is None:  # `vf-validate`: there is no agent
            return await asyncio.to_thread(score_untouched, get_default_sandbox(), load_tasks()[self.key])
        return get_reward(_get_attempt(trace))

    @vf.metric
    async def verdict(self, trace: vf.Trace) -> dict[str, float]:
        if trace.agent.config.harness is None:
            return {}
        attempt = _get_attempt(trace)
        reward = attempt.reward
        return {
            "solved": float(attempt.outcome == "solved"),
            "checks_passed": reward.passed / reward.total if reward is not None and reward.total else 0.0,
            "calls": float(sum(step.kind == "call" and not is_answer(step) for step in attempt.steps)),
            "program_error": float(attempt.outcome == "program_error"),
            "user_error": float(attempt.user_error),
        }


class EnvariumConfig(vf.TasksetConfig):
    """Selection of the package's tasks."""

    side: Literal["train", "test"] = "train"
    """`test` holds what the dataset held out."""


class EnvariumTaskset(vf.Taskset[EnvariumTask, EnvariumConfig]):
    """The tasks of the package."""

    def load(self) -> Iterator[EnvariumTask]:
        for head in load_tasks().heads(self.config.side):
            told = head.model_dump(exclude={"instruction"})
            data = EnvariumData(**told, name=head.id, prompt=head.instruction, side=self.config.side)
            yield EnvariumTask(data, self.config.task)


class AskedConfig(vf.BaseConfig):
    """A model that plays a role beside the agent, at an address of its own."""

    model: str = ""
    base_url: str = ""
    api_key_var: str = "OPENAI_API_KEY"
    """The environment variable that holds its key."""
    temperature: float = 1.0

    def asked(self) -> AskedModel | None:
        if not self.model:
            return None
        key = SecretStr(os.environ.get(self.api_key_var, ""))
        return AskedModel(Endpoint(name="role", base_url=self.base_url, api_key=key), self.model, self.temperature)


class EnvariumHarnessConfig(vf.HarnessConfig):
    """Limits of an attempt, and the models of other roles."""

    max_turns: int | None = None
    """None: 30, or 40 in a conversation, as on the site."""
    deadline_s: float = 3_600.0
    """What tools and silence may take of one attempt."""
    user: AskedConfig = AskedConfig()
    """Plays the user, if a task is a conversation."""
    judge: AskedConfig = AskedConfig()
    """Decides the facts of a task that is judged by a rubric; without one such a task is refused."""


class EnvariumHarness(vf.Harness[EnvariumHarnessConfig]):
    """The site's own loop, in this process."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        if data.system_prompt:
            raise ValueError("the system message of these tasks is their environment's and cannot be replaced")
        agent = Endpoint(
            name="verifiers",
            base_url=endpoint,
            api_key=SecretStr(secret),
            timeout_s=SILENT_S,
            deadline_s=SILENT_S,
            max_retries=2,
            left_out={ctx.model: {"stream": "", "stream_options": ""}},
        )
        attempt = await make_attempt(
            get_default_sandbox(),
            load_tasks()[str(data.id)],
            AskedModel(agent, ctx.model),
            Limits(self.config.max_turns, self.config.deadline_s),
            user=self.config.user.asked(),
            judge=self.config.judge.asked(),
            ended=lambda: trace.stop_condition or "",
        )
        trace.state.attempt = attempt
        trace.info["envarium"] = {"outcome": attempt.outcome, "ending": attempt.ending, "note": attempt.note}
        return vf.ProgramResult(0, f"{attempt.outcome}: {attempt.note}".rstrip(": "), "")


class EnvariumEnvConfig(vf.EnvConfig):
    """One agent; its harness does not execute code of the model, so it needs no container."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())

    @model_validator(mode="before")
    @classmethod
    def _set_own_harness(cls, data: Any) -> Any:
        """Apply settings of a harness without an id to this package's harness; verifiers would use `bash`."""
        agent = data.get("agent") if isinstance(data, dict) else None
        if isinstance(agent, dict) and isinstance(harness := agent.get("harness"), dict) and not harness.get("id"):
            return {**data, "agent": {**agent, "harness": {**harness, "id": PACKAGE}}}
        return data


class EnvariumEnv(vf.Env[EnvariumEnvConfig]):
    """One agent attempts one task."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.agent.run(task)


def is_answer(step: TrajectoryStep) -> bool:
    """Return whether a step submitted the answer, which reaches no environment."""
    return step.result is not None and not step.result.executed


def _get_attempt(trace: vf.Trace) -> Attempt:
    attempt = getattr(trace.state, "attempt", None)
    if attempt is None:
        raise ValueError(FOREIGN)
    return attempt


__all__ = ["EnvariumEnv", "EnvariumHarness", "EnvariumTaskset"]
