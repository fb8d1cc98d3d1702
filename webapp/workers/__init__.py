"""Training workers: their rows, the claims of training jobs, what they send and what they fetch.

`api.py` (`/training/...`, scope `worker`, with limits of its own) calls: `registration.py` (who workers are; one that
begins again in its folder says who it was), `claims.py` (long-polled claims, leases, and the claim that every write
and download asks first; `reap` for the clock), `ingest.py` (records), `checkpoint_uploads.py` (checkpoints in pieces),
`rollout_uploads.py`, `downloads.py` (files with Range; `assignment.py` says which), `llm_proxy.py` (who plays the
user, and who judges), `retention.py` (what is no longer kept).

Files are written, hashed and unpacked while no transaction is open, and the attempt is looked at once more in the one
that makes them count. Pieces of uploads lie in `ENVARIUM_HOME/incoming`; whole files move into the file store. A
worker that was lost holds its job again if it comes back before another has claimed it.

`ingest.py` takes records that follow `next_seq`, passes over known ones, refuses gaps; with the first record of a
later attempt all that earlier ones recorded behind its checkpoint is `superseded`.

This app stands above `webapp/runs`: it tells candidates for queued jobs there (`apps.py`), and a training job knows
its worker by public id alone. What runs on the other side of the API: `training/worker`.
"""
