"""Golden states (AutoForge, Eq. 1): made of a task's reference, compared with end states, and scored.

`state_comparison.py`: the comparison of an end with the golden state. With the equality `roles` both are first brought
into a normal form (`normal_form.py`: volatile places by their role), then the ids of added records are matched by one
bijection (`id_bijection.py`) and renamed; the remaining differences count. `golden_states.py` makes a golden state by
executing the reference, and `volatile_places.py` finds the places in which its ends differ. `golden_scores.py`: rewards
and the hash of a verifier.
"""

from synthesis.verifiers.golden.golden_scores import (
    STATE_LABEL,
    build_state_verdict,
    hash_golden,
    reward_golden,
)
from synthesis.verifiers.golden.state_comparison import golden_differences

__all__ = ["STATE_LABEL", "build_state_verdict", "golden_differences", "hash_golden", "reward_golden"]
