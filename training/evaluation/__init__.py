"""Evaluation jobs: attempts of a model at a dataset's tasks, reported in parts; nothing is trained.

`training.sampler.plan_reports` divides the work into reports: the same ones in the same order for a configuration and
rows, so that a job continues after the reports that the site has. Every report is a step of the job's record with its
attempts, which `job.py` makes and writes; a model in this process generates tokens (`training.evaluate`), one behind an
address is asked (`asked_policy.py`). Results are computed at the site, which keeps the attempts:
`webapp/runs/evaluations`.
"""
