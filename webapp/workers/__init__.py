"""Training workers: their rows, the claims of training jobs, what they send and what they fetch.

`api.py` (`/training/...`, scope `worker`, with limits of its own) calls: `registration.py` (who workers are; one that
begins again in its folder says who it was), `claims.py` (long-polled claims, leases, and the claim that every write and
download checks first; `reap` for the scheduler), `ingest.py` (records), `checkpoint_uploads.py` (checkpoints in
pieces), `rollout_uploads.py`, `downloads.py` (files with Range; `assignment.py` lists them), `llm_proxy.py` (the models
that play the user or judge), `retention.py` (removal of old files).

Files are written, hashed and unpacked while no transaction is open, and the attempt is checked again in the transaction
that makes them count. Pieces of uploads lie in `ENVARIUM_HOME/incoming`; complete files move into the file store. A
worker that was lost holds its job again if it comes back before another has claimed it.

`ingest.py` takes records that follow `next_seq`, passes over known ones, refuses gaps; with the first record of a later
attempt all that earlier ones recorded behind its checkpoint is `superseded`.

This app is above `webapp/runs`: it registers candidates for queued jobs there (`apps.py`), and a training job knows its
worker by public id alone. The other side of the API runs `training/worker`.
"""
