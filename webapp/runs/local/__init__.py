"""Training on this installation: the demo, the installation of torch, the worker beside the site.

The Celery worker of the queue `gpu` runs `runs.work`, which starts `python -m training.worker --until-idle` as a child
in its own group, with the token of the account `gpu-worker` (`worker_process.py`); a stop asks it to end its step and
hand in a checkpoint. A wake-up (`webapp/runs/wakeups.py`) only says that a job waits: the claim is the row's.

Packages for training are installed by the job `install_training` (`installation.py`, `pip.py`): torch at its pin first,
then the rest of the extra, under constraints of all that is installed; pip's last line is shown. `prepare_training`
queues it at a start if something is missing.

`demo.py` only writes two datasets and two training jobs; the job `prepare_demo` (`demo_rows.py`) imports
`training/examples` as environments, tasks and the teachers' trajectories, each by its app's own services, then freezes
both datasets as any selection is frozen, so that a point of the curve leads to a task as it always does. The source of
tasks and lessons names seed and content: a second run finds them, and creates only jobs.
"""
