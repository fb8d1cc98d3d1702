"""Alerts of training jobs: rules on their numbers, stored once each with their first and last step.

`rules.py` has every rule with its threshold and the reason for it; it knows nothing of the database. `watch.py` checks
the numbers of a job as they are taken in, `stalls.py` (called by the scheduler) jobs that report nothing. `page.py`
builds what pages show of alerts, `api.py` the same over REST. Webhooks (`webapp.webhooks`) are notified of beginnings
and ends.
"""
