"""Withheld variants of tasks: a tool or a parameter is taken away that the task needs, and the right thing is to say so.

They are tasks of their own, with their parent, a verifier and an audit. `services.py` makes them of stored tasks
(`synthesis/tasks/withheld.py` says which can be made). What an attempt sees and can call is `offered_program` of
`webapp/scenarios/references.py`, wherever an attempt is made, executed again or exported.
"""
