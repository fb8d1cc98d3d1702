"""Blueprints of tasks on pages: the graph of calls and reasoning that a task was written from (AutoForge 3.2, 3.3).

A blueprint is part of the record of the revision that a batch of the variant `autoforge` stored. `page.py` reads it and
describes the source of each value.
"""
