"""Edits: a change of a program or a task that a person drafts, its effects, and its saving.

A draft (`models.Edit`) is based on one version or revision. `proposals` builds the result of a draft, `draft_problems`
lists what keeps it from being saved, `case_runs` runs the cases of a tool on it, `forecasts` computes the effects of
saving, and `saved_edit` saves it.
"""
