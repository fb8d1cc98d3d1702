"""Blueprints of tasks on pages: the graph of calls and reasoning that a task was written from (AutoForge 3.2, 3.3).

A blueprint stands in the record of the revision that a batch of the variant `autoforge` stored. `page.py` reads it and
says in words where each value comes from.
"""
