"""Withheld variants of tasks: a tool or a parameter that the task needs is taken away; the right answer is to report
that.

They are tasks of their own, with their parent, a verifier and an audit. `services.py` makes them of stored tasks
(`synthesis/tasks/withheld.py` defines which can be made); `page.py` shows them on pages, `filters.py` lets lists and
datasets select them. What an attempt sees and can call is `build_offered_program` of `webapp/scenarios/references.py`,
for attempts, their repetition and their export.
"""
