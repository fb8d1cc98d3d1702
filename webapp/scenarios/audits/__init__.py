"""Audits of tasks: computed once for what they depend on, stored with all that a page shows.

`services.py` stores an audit under a key of all that it depends on (verifier, environment version, initial state,
reference, `AUDIT_VERSION`; for a rubric also instruction and judge): an audit with a known key is never computed again.
`audit_job.py` audits many tasks: rows in one thread, the sandbox in a few others. `task_state.py` alone writes the
copies on the task and the counts above it. An infrastructure failure stores nothing. Audits themselves are defined in
`synthesis/verifiers`.
"""
