"""Preflight of a training job: what it names, what is known about its rows, and whether a worker can run it.

`job_lookup.resolve_job` finds what a `NewJob` names and gathers every fault with its field (`remarks.py`), writing
nothing. `job_checks.check_resolved_job` adds facts about the rows (`webapp/datasets/row_facts.py` reads a dataset once,
by its hash): steps as the trainer's own sampler counts them (`step_count.py`), lengths (`row_lengths.py`), memory, time
of earlier jobs and queue (`estimates.py`). What cannot be known is None with a note. `candidates.py` lists the workers,
`matching.py` says which of them could take a job and why it waits. Services, the API and the form use it.
"""
