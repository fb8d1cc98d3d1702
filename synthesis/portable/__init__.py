"""Tasks that leave as an installable package, which brings along what attempts at them need: a *verifiers* taskset.

`package.py` writes the wheel: tasks and programs as data (`task_file.py`), Envarium's own modules below the package's
name (`sources.py`), and `taskset.py`, which `verifiers` finds by the package's name. Whoever installs it needs no
Envarium: an attempt goes through the one loop (`synthesis.rollout`), the sandbox and the checks of the modules that
came along (`attempt.py`), so its reward is the site's. Of this room `taskset.py` alone imports `verifiers`, and nothing
here imports `taskset.py`.
"""
