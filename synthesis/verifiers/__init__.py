"""Verifiers: what turns an end state, and an answer, into a reward."""

from synthesis.verifiers.checks import do_nothing, marks, reward_of, score_checks, trace, verifier_hash

__all__ = ["do_nothing", "marks", "reward_of", "score_checks", "trace", "verifier_hash"]
