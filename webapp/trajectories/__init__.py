"""Trajectories: steps with state patches, scores by verifier, the check x step matrix.

A recorded run is executed again on import (`importer.py`, `reproduction.py`): steps with patches and snapshots, scores
from the record and from the replay, and the first divergence. `steps.py` makes rows of steps and scores for imports and
for attempts that are made here; `states.py` returns the state after any step, from the last snapshot at or before it
and the patches since; only `totals.py` counts. `matrix.py` stores which check holds after which step, as start values
and flips. Subpackages: `rollouts/` (agents act), `forks/` (continue from a step), `replay/` (the page), `side_by_side/`
(comparisons), `export/` (training data).
"""
