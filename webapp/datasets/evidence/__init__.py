"""Evidence on a dataset's rows, gathered while it is frozen and recorded in its manifest.

`executions.py` executes each row again and leaves out those with another result; `near_duplicates.py` lists held-out
rows that are almost the same as one to learn from, found by `near_pairs.py`; `near_duplicate_views.py` shows them.
"""
