"""Alerts of training jobs: rules on their numbers, stored once each with where they begin and end.

`rules.py` has every rule with its threshold and why it is that; it knows nothing of the database. `watch.py` looks at
the numbers of a job as they are taken in, `stalls.py` from the clock at jobs that say nothing. `page.py` is what pages
show of them, `api.py` the same over REST. What begins or ends is told to webhooks (`webapp.webhooks`).
"""
