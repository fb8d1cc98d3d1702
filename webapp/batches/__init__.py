"""Batches: one synthesis run over many themes or environments, made of stages and items.

`spec.py` is what a person chooses, `setting_labels.py` how it is called on pages (label, hint, published or ours),
`services.py` all that people ask for (create, start, pause, resume, cancel, try again, clone), each in the audit log.
`engine/` carries out, `launch/` is the form and the dry run, `pages/` what is followed and looked at. `command_run.py`
works a batch off in the process of a command.
"""
