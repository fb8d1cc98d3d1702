"""Rollouts of training steps: read out of stored files, shown, executed again.

A point of a curve leads to `step_views.py`: that step's `RunRollout` rows, by advantage or by task. Opening one
(`rollout_replay.py`) reads its line out of the step's file (`rollout_file.py`, bounded), executes its calls again as an
import's are (`webapp/trajectories/reproduction.py`) and stores what happened here by
`webapp/trajectories/rollouts/finished_attempt.py`: results, patches and reward of the worker are compared, never
stored. An attempt that differs in end state, reward or verifier is `quarantined`, in words. The facts of rubrics are
decided by the replies that the job's judge gave its worker (`recorded_judge.py`).

`verification.py` does the same with a sample (`ENVARIUM_ROLLOUT_SAMPLE`) of every file that arrives, in the background
job `verify_rollouts`, and with the whole file if one differs. `reported_means.py` compares the means that a worker
posted for a step with those of its rollouts; `due_attempts.py` ties a step's file to the rows of the job's dataset,
`reported_keys.py` the names of numbers, and `verified_steps.py` lists the steps whose numbers are verified. Either
difference is a `doubt` (`webapp/runs/transitions.py`): the training job is paused, with both numbers in words, until a
person resumes it. `check_names.py` names the checks that a job records numbers of.
"""
