"""The launch of a batch: its form, the choice of items, a dry run, an estimate.

`forms.py` is the form: its fields for stages come from the table in `webapp/batches/setting_labels.py` and
`StageSettings`; bounds are checked by `BatchSettings`, whose errors are mapped back to fields. `choice.py` turns the
choice into `ItemSpec`s, for page and API. A form is executed once for the token and content that were sent (`once` of
`webapp/common/rest/idempotency.py`); a changed form is another one. `task_files.py` reads a task set within bounds and
stores it temporarily, under a signed name, while its form comes back. `estimate.py` is the dry run, `usage_history.py`
gives it the usage of past calls.
"""
