"""Environments: immutable versions, tools, findings, assessments and tool cases.

A file goes through `synthesis/formats` (records, or failures with place and reason) and `importer.py` (read, probed in
the sandbox) to `services.py`, which makes versions by content: never two for one content, whoever imports at the same
time. Findings come from `synthesis/assessment`, static and probed.

What a version's content counts (rules, attributes by entity, tools by kind) is measured once, when it is saved
(`program_measures.py`), and stands in its row; `totals.py` alone adds to an environment's counts and the tree's. An
assessment is saved with its cases (`assessment_services.py`; states by content), the job `rerun_cases` executes its
cases again without an LLM.
"""
