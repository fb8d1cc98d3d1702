"""The worker that runs training jobs, on the web app's machine or a remote one: `python -m training.worker --help`.

It uses HTTP only, without torch; the trainer is its child (`training.launch`). Data not sent yet is on disk.

It registers, claims a job (`loop.py`) and creates its attempt's folder (`attempt_folder.py`): datasets, model and
checkpoint are fetched by hash, interrupted downloads resumed, kept in a bounded cache. The trainer is a child in a
group of its own (`child.py`; `accelerate` on several GPUs). Twice a second it checks a lock that its worker holds
(`training/lifeline.py`) and ends when that is free.

`attempt.py` follows it; two threads read its record, each with its position on disk (`uploads.py`): one posts records
in their order, the other uploads rollouts and checkpoints as they are named, so that a large file does not delay the
curve. A third reports every few seconds that the worker is alive and receives a user's request to stop, which becomes
the file `stop`. `client.py` retries until the server answers; `stale_attempt` ends the child and drops the folder.
Everything an attempt's end needs (records, files, the final model) is sent before its `end`. A worker that was killed
finds its folders at its next start, sends the missing data, and reports `crashed`: the job is queued again and
continues from its last checkpoint. The server side: `webapp/workers`.
"""

from training.worker.loop import main

__all__ = ["main"]
