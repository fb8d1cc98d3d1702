"""Rollouts: background jobs in which agents attempt a task, stored and followed while they run.

`services.py` writes a Rollout, its RolloutAttempts (one row for each ordinal) and a job. The job (`rollout_job.py`)
claims every attempt that is not done under its claim's number, runs them in one event loop (`synthesis.rollout`;
`plans.py` makes plans from rows) and has a few threads write (`attempt_writer.py`): the trajectory when an attempt
starts, each step with patch and snapshot as it is made, outcome, score and time split at its end. Each write locks the
attempt's row and checks its claim: a stale worker writes nothing.

After SIGKILL the next claim starts the unfinished ordinals again on the same trajectory rows (`starts` counts), and
leaves the others. A job that ends without its handler is tidied up by its kind's `closing`. Changes are published a few
times a second (`webapp/common/events`), and `static/js/replay-follow.js` adds steps to a replay page.
`finished_attempt.py` writes the same rows for an attempt that has ended: batches and opened rollouts of training use
it.
"""
