"""Edits: a change of a program or a task that a person drafts, what it would do, and how it is saved.

A draft (`models.Edit`) stands on one version or revision. `proposals` says what it would make of it, `case_runs` runs
the cases of a tool on it, `forecasts` works out what saving would do, and `saved_edit` does it.
"""
