"""Evaluations: results of a model's attempts, with intervals, and comparisons of two or more models.

An evaluation is a training job of the method `evaluation`: a worker makes attempts and reports them as it does those of
RL's steps (`RolloutFile`, `RunRollout`), a report being a step. So a sample is executed again here, each attempt can be
opened, and one that was lost has no reward. `progress.py` counts the reports that are here: the next claim goes on
behind them, and later ones of earlier attempts are superseded, so that nothing counts twice.

`tried_tasks.py` reads attempts task by task; `statistics.py` computes numbers with intervals from them (bootstrap over
tasks; Wilson's for shares of tasks); `results.py` builds the results of an evaluation, `comparison.py` those of
several. Pages (`evaluation_views.py`) and the API (`api.py`) show the same.
"""
