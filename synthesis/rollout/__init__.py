"""Agents act: one async loop for every policy, many episodes at once.

async with connect(endpoint) as connection:
    policy = ChatPolicy(connection.chat("some-model"), temperature=0.7)
    plans = [Plan(task, policy, ordinal=n) for n in range(8)]
    async for attempt in run_attempts(sandbox, plans, at_once=4):
        ...
"""

from synthesis.rollout.attempt_log import OnStart, OnStep
from synthesis.rollout.attempt_pool import run_attempts
from synthesis.rollout.chat import ChatPolicy
from synthesis.rollout.noisy_reference import NoisyReferencePolicy
from synthesis.rollout.observation import observation
from synthesis.rollout.plan import AttemptSetting, Plan, RolloutTask, documentation
from synthesis.rollout.policy import Conversation, Policy, PolicyError
from synthesis.rollout.random_calls import RandomPolicy
from synthesis.rollout.reference import ReferencePolicy
from synthesis.rollout.user import STOP, SimulatedUser, User, UserTurn

__all__ = [
    "STOP",
    "AttemptSetting",
    "ChatPolicy",
    "Conversation",
    "NoisyReferencePolicy",
    "OnStart",
    "OnStep",
    "Plan",
    "Policy",
    "PolicyError",
    "RandomPolicy",
    "ReferencePolicy",
    "RolloutTask",
    "SimulatedUser",
    "User",
    "UserTurn",
    "documentation",
    "observation",
    "run_attempts",
]
