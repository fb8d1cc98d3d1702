"""Evaluations: what a model's attempts come to, with intervals, and how two or more models compare.

An evaluation is a training job of the method `evaluation`: a worker makes attempts and reports them as it does those of
RL's steps (`RolloutFile`, `RunRollout`), a report being a step. So a sample is executed again here, each attempt can be
opened, and one that was lost has no reward. `progress.py` says how many reports are here: the next claim goes on
behind them, and what lay behind them before is superseded, so that nothing counts twice.

`tried_tasks.py` reads attempts task by task; `statistics.py` makes numbers with intervals of them (bootstrap over
tasks; Wilson's for shares of tasks); `results.py` puts an evaluation's together, `comparison.py` several evaluations'.
Pages (`evaluation_views.py`) and the API (`api.py`) show the same.
"""
