"""Yield of a batch: products and usage by stage, for one kept environment and one kept task.

`figures.py` reads it in a fixed number of queries that add up in the database; `services.py` keeps what was read
(`BatchYield`) until the batch has moved on, and leaves large batches to a job. `choices.py` counts the cost of each
choice of a batch, `comparison.py` compares two batches, `shared_environments.py` compares them on their common
environments (figures: `environment_figures.py`), which is how two variants are compared. `figures.py` alone knows
where attempts are counted; `published.py` has EnvScaler's own figures.
"""
