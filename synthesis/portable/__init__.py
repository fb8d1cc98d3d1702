"""Tasks exported as an installable package that includes everything for attempts at them: a *verifiers* taskset.

`package.py` writes the wheel: tasks and programs as data (`task_file.py`), Envarium's own modules below the package's
name (`sources.py`), and `taskset.py`, which `verifiers` finds by the package's name. Installing it does not require
Envarium: an attempt goes through the one loop (`synthesis.rollout`), the sandbox and the checks of the included modules
(`attempt.py`), so its reward equals the site's. In this folder only `taskset.py` imports `verifiers`, and nothing here
imports `taskset.py`.
"""
