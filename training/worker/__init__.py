"""The worker that carries training jobs out, beside the web app or far away: `python -m training.worker --help`.

It speaks HTTP only, without torch; the trainer is its child (`training.launch`). What it has not sent yet lies on disk.

It registers, claims a job (`loop.py`) and lays its attempt's folder out (`attempt_folder.py`): datasets, model and
checkpoint are fetched by hash, broken downloads gone on with, kept in a bounded cache. The trainer is a child in a
group of its own (`child.py`; `accelerate` on several GPUs). It looks twice a second at a lock that its worker holds
(`training/lifeline.py`) and ends when that is free.

`attempt.py` follows it; two threads read its record, each with its place on disk (`uploads.py`): one posts records in
their order, the other uploads rollouts and checkpoints as they are named, so a large file does not hold the curve up.
A third says every few seconds that the worker lives and brings a person's wish back, which becomes the file `stop`.
`client.py` tries again until the server answers; `stale_attempt` ends the child and drops the folder. What an
attempt's end needs (records, files, the final model) is sent before `end` is said. A worker that was killed finds its
folders at its next start, sends what is missing, and says `crashed`: the job is queued again and goes on from its last
checkpoint. The other side: `webapp/workers`.
"""

from training.worker.loop import main

__all__ = ["main"]
