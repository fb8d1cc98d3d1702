"""Rollouts: agents attempt tasks, in one async loop for every policy, many episodes at once.

async with connect(endpoint) as connection:
    policy = ChatPolicy(connection.chat("some-model"), temperature=0.7)
    plans = [Plan(task, policy, ordinal=n) for n in range(8)]
    async for attempt in run_attempts(sandbox, plans, at_once=4):
        ...

`run_attempts(sandbox, plans, ...)` (`attempt_pool.py`) makes many attempts in one event loop and yields each as it
ends; `episode.py` is the loop. A `Plan` is a task, a policy, a setting and perhaps a user. Each turn the policy
gets a `Conversation` (system message with documentation, the task or the user's words, results of calls; never the
state) and returns a `Turn`. `environment_calls.py` makes the sandbox's blocking calls in at most 8 threads and times
them there; `attempt_log.py` turns the collected data into an `Attempt`: steps with results and patches, messages as
seen, answer, `ending`, `outcome`, reward, prompt hashes, usage, seconds by part. Callbacks `on_start` (with the first
state) and `on_step` follow it live. `stop` ends running attempts as `cancelled`; closing the generator kills episodes.
Checks are evaluated in children of their own after the episode's is gone.

A task with an answer form ends by the object that the agent submits (`submission.py`), not by words.

With a `disturbance` of the setting calls meet latency, failures and error results (`disturbance.py`), drawn from the
plan's `disturbance_seed` and the place of the step.

With `user_tools` of the setting the simulated user calls tools that the agent does not see (`user_turn.py`); a call
of either is executed in `call_execution.py`.

A `Plan` with a `fork` (`fork.py`) repeats another attempt's first turns and refuses if they develop differently.

Policies: `ChatPolicy` (an LLM, calls formatted by `styles.py`), `ReferencePolicy`, `NoisyReferencePolicy`,
`RandomPolicy`, `ByHandPolicy` (a person's calls); in training `training/policy.py`. `SimulatedUser` is `base` or
`optimised` (AutoForge A.2).
"""

from synthesis.rollout.attempt_log import OnStart, OnStep, derive_outcome
from synthesis.rollout.attempt_pool import run_attempts
from synthesis.rollout.by_hand import ByHandPolicy
from synthesis.rollout.chat import ChatPolicy
from synthesis.rollout.disturbance import build_attempt_seed, draw_injection, replace_result, set_due_injections
from synthesis.rollout.fork import ForkStart, RecordedUser, StoredStep
from synthesis.rollout.noisy_reference import NoisyReferencePolicy
from synthesis.rollout.observation import format_observation
from synthesis.rollout.plan import AttemptSetting, Plan, RolloutTask, format_documentation
from synthesis.rollout.policy import Conversation, Policy, PolicyError
from synthesis.rollout.random_calls import RandomPolicy
from synthesis.rollout.reference import ReferencePolicy
from synthesis.rollout.user import STOP, SimulatedUser, User, UserTurn

__all__ = [
    "STOP",
    "AttemptSetting",
    "ByHandPolicy",
    "ChatPolicy",
    "Conversation",
    "ForkStart",
    "NoisyReferencePolicy",
    "OnStart",
    "OnStep",
    "Plan",
    "Policy",
    "PolicyError",
    "RandomPolicy",
    "RecordedUser",
    "ReferencePolicy",
    "RolloutTask",
    "SimulatedUser",
    "StoredStep",
    "User",
    "UserTurn",
    "build_attempt_seed",
    "derive_outcome",
    "draw_injection",
    "format_documentation",
    "format_observation",
    "replace_result",
    "run_attempts",
    "set_due_injections",
]
