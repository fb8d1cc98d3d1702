"""Measures of tasks: their pipeline variant, their difficulty, and how solvers' runs agreed.

`difficulty.py` counts the knobs of Agent-World 3.1.1 ("Difficulty Scaling") as they came out and stores them beside the
revision whenever its reference changes; `shown.py` shows them on the task's page and in the API.
"""
