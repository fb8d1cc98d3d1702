"""Yield of a batch: what came of what it asked for, by stage, for one kept environment and one kept task.

`figures.py` reads it in a fixed number of queries that add up in the database; `services.py` keeps what was read
(`BatchYield`) until the batch has moved on, and leaves large batches to a job. `choices.py` counts what each choice of
a batch costs, `comparison.py` sets two batches side by side. `solve_rates.py` alone knows where attempts are counted;
`published.py` has what EnvScaler says of its own.
"""
