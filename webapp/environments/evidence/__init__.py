"""Evidence for a version besides its own assessment.

`version_runs.py` runs the cases of an earlier version's assessment on a later one and compares what they do;
`version_run_views.py` has its page, and the page of a tool before its repair.
"""
