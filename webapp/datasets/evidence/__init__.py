"""What is found out about a dataset's rows while it is frozen, and told in its manifest.

`executions.py` executes each of them again and leaves out what comes out otherwise; `near_duplicates.py` lists held-out
rows that are almost the same as one to learn from, found by `near_pairs.py`; `near_duplicate_views.py` shows them.
"""
