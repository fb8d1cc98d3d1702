"""Form of a new training job.

`webapp/runs/setting_fields.py` turns the models of `training.config` into fields: path, kind, range and description
come from pydantic, words and headings from `webapp/runs/setting_labels.py`; a new setting of a kind it knows needs a
label there and nothing else. Variants (`horizon`, `tuning`) have fields of their own (`horizon__list__turns`), which a
stylesheet shows by the chosen kind.

`forms.py` reads all fields, lets pydantic validate the whole configuration, and sends `list_changes` of preset and
form. A hidden `shown` names the preset whose values a form was rendered with: after a change of method or preset only
the person's changes are kept, and nothing starts before the new values were seen. `new_job_views.show_preview` (URL
`runs:preflight`) renders everything beside the form: differences, preflight (`webapp/runs/preflight`), the same by API;
errors go to their fields out of band.
"""
