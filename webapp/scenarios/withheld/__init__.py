"""Withheld variants of tasks: a tool or a parameter that the task needs is taken away; the right thing is to say so.

They are tasks of their own, with their parent, a verifier and an audit. `services.py` makes them of stored tasks
(`synthesis/tasks/withheld.py` says which can be made); `page.py` is what pages say of them, `filters.py` how lists and
datasets choose them. What an attempt sees and can call is `offered_program` of `webapp/scenarios/references.py`,
wherever an attempt is made, executed again or exported.
"""
