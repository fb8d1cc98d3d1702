"""Batches: one synthesis run over many themes or environments, made of stages and items.

`spec.py` holds the settings that a person chooses, `setting_labels.py` their labels on pages (label, hint, published or
ours), `services.py` all actions that people request (create, start, pause, resume, cancel, retry, clone), each written
to the audit log. `engine/` executes batches, `launch/` is the form and the dry run, `pages/` shows progress and
results. `management/command_run.py` runs a batch to its end in the process of a command.
"""
