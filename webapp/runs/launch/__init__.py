"""Launch of a training job: its form, the look-up of what it names, preflight and estimates.

`job_lookup.look_up` finds what a `NewJob` names and gathers every fault with its field (`RefusedJob`), writing nothing;
`preflight.looked_at` adds facts about the rows (`webapp/datasets/row_facts.py` reads a dataset once, by its hash):
steps as the trainer's own sampler counts them (`step_count.py`), lengths (`row_lengths.py`), memory, time of earlier
jobs and queue (`estimates.py`). What cannot be known is None with a note.

`setting_fields.py` turns the models of `training.config` into fields: path, kind, range and description come from
pydantic, words and headings from `webapp/runs/setting_labels.py`; a new setting of a kind it knows needs a label there
and nothing else. Variants (`horizon`, `tuning`) have fields of their own (`horizon__list__turns`), which a stylesheet
shows by the chosen kind.

`forms.py` reads all fields, lets pydantic judge the whole configuration, and sends `changes_between` preset and that. A
hidden `shown` names the preset whose values a form was rendered with: after a change of method or preset only the
person's changes are kept, and nothing starts before the new values were seen. `new_job_views.beside` (URL
`runs:preflight`) renders everything beside the form: differences, preflight, the same by API; errors go to their fields
out of band.
"""
