"""Forks: attempts that go on from a step of another one, by hand or with a policy.

`starts.py` reads where a fork begins: the parent's turns, its steps as they were stored and the state's hash, and says
what stands in the way. Whoever goes on, `synthesis/rollout/episode.py` carries the parent's turns out again with the
parent's seed, clock and validation, and refuses at the first step that comes out otherwise. By hand (`services.py`) the
calls are chosen in a playground that begins after the parent's, then all of them are executed once more in an episode
of their own and judged as any attempt is. With a policy a rollout carries the fork in its spec. `outcomes.py`: what
becomes of a fork that solves (the reference), `pair.py`: a fork and its parent as a preference pair.
"""
