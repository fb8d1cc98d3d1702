"""Background jobs: rows that Celery wakes, with claims, leases, progress, log and reaper.

A service creates a job (`services.create`, with a kind, a payload of primary keys and a subject such as `trajectory:5`)
in its transaction; the queue gets its message on commit. A worker's `jobs.run` claims the row, which issues the next
attempt number, and calls the handler that the kind's app registered in its own `jobs.py` (`registry.py`; all are loaded
by `AppConfig.ready`). The handler gets a `JobContext`: payload, progress, log, and its claim, which every write checks
(`claims.py`; a stale claim changes nothing). A handler may run again after a crash, so its writes must be idempotent.

A heartbeat renews the lease. The scheduler process (`scheduler.py`) reaps jobs without a holder: they are queued again,
failed after three lost workers, tidied up by the kind's `closing`. A job that a person starts, stops or retries is in
the audit log. `subjects.py` maps a subject to its page, and jobs are found by kind and subject.

Each job has a process of its own, forked from a parent that has loaded the code and frozen the collector (`pool.py`).
`presence.py` and `heartbeat.py` report live workers to the health page.
"""
