"""Evaluation jobs: attempts of a model at a dataset's tasks, reported part by part, and nothing learnt.

`training.sampler.reports` cuts the work into reports: the same ones in the same order for a configuration and rows, so
that a job goes on behind what the site has. Every report is a step of the job's record with its attempts, which
`job.py` makes and writes; a model of this process makes tokens (`training.evaluate`), one behind an address is asked
(`asked_policy.py`). What they come to is reckoned where attempts are kept: `webapp/runs/evaluations`.
"""
