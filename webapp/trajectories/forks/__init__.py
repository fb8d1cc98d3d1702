"""Forks: attempts that continue from a step of another attempt, by hand or with a policy.

`starts.py` reads the start of a fork: the parent's turns, its steps as they were stored and the state's hash, and
reports obstacles. In both cases `synthesis/rollout/episode.py` executes the parent's turns again with the parent's
seed, clock and validation, and refuses at the first step with a different outcome. By hand (`services.py`) the calls
are chosen in a playground that begins after the parent's, then all of them are executed once more in an episode of
their own and judged as any attempt is. With a policy a rollout has the fork in its spec. `outcomes.py`: a fork that
solves as the reference, `pair.py`: a fork and its parent as a preference pair.
"""
