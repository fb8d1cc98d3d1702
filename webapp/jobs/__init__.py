"""Background jobs: rows that Celery wakes, with claims, leases, progress, log and reaper.

A service creates a job (`services.create`, with a kind, a payload of primary keys and a subject such as
`trajectory:5`) in its transaction; the queue is told on commit. A worker's `jobs.run` claims the row, which issues the
next attempt number, and calls the handler that the kind's app registered in its own `jobs.py` (`registry.py`; all are
loaded by `AppConfig.ready`). The handler gets a `JobContext`: payload, progress, log, and its claim, under which all
it writes stands (`claims.py`; a stale claim changes nothing). It may run again after a crash, so what it writes must
be the same when written twice.

A heartbeat renews the lease. The clock's own process (`scheduler.py`) reaps what nobody holds any more: queued again,
failed after three lost workers, tidied by the kind's `closing`. A job that a person starts, stops or tries again is in
the audit log. `subjects.py` leads from a subject to its page, and jobs are found by kind and subject.

Each job has a process of its own, forked from a parent that has loaded the code and froze the collector (`pool.py`).
`presence.py` and `heartbeat.py` tell the health page which workers live.
"""
