"""Scenarios and tasks: revisions with checks, references and states; EnvScaler import and export.

A task's content is in immutable revisions (`services.py`); its hash includes the environment version. A reference is a
row of a revision, no part of its content (`references.py`). States are kept by content (`states.py`,
`webapp/common/content_store.py`). `importer.py` takes EnvScaler's files one record at a time, `exporter.py` writes them
again; `starter_set.py` saves the bundled tasks through the same services. Every write is idempotent by content, and
the sandbox is called outside transactions.
"""
