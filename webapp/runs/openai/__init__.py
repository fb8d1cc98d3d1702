"""OpenAI's fine-tuning resources: requests and responses, and how they map to training jobs.

`request_schemas.py` and `response_schemas.py` spell `fine_tuning.jobs`, `conversion.py` goes between them and the rows
here. Envarium's own fields are separate: in requests beside OpenAI's fields, in answers in the member `envarium`.
`api_examples.py` shows a page's call for curl and the `openai` client. Uploaded files are in
`webapp/datasets/file_api.py`.
"""
