"""Environments: immutable versions, tools, findings, assessments and tool cases.

A file goes through `synthesis/formats` (records, or failures with place and reason) and `importer.py` (read, probed in
the sandbox) to `services.py`, which creates versions by content: never two for one content, even with concurrent
imports. Findings come from `synthesis/assessment`, static and probed.

The numbers of a version's content (rules, attributes by entity, tools by kind) are computed once, when it is saved
(`services.py`), and stored in its row; only `totals.py` changes an environment's counts and the tree's. An
assessment is saved with its cases (`assessment_services.py`; states by content); the job `rerun_cases` executes its
cases again without an LLM.
"""
