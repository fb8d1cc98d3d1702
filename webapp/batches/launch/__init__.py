"""The launch of a batch: its form, what it is to grow, a dry run, an estimate.

`forms.py` is the form: its fields for stages come from the table in `webapp/batches/setting_labels.py` and
`StageSettings`, its bounds from asking `BatchSettings`, whose answers come back by field. `choice.py` turns what was
chosen into `ItemSpec`s, for page and API. A form's write runs once for the token and content that were sent (`once` of
`webapp/rest/idempotency.py`); a changed form is another one. `task_files.py` reads a task set within bounds and puts
it aside, under a signed name, while its form comes back. `estimate.py` is the dry run, `usage_history.py` what calls
of the past say for it.
"""
