"""Agreement of a session: measured by a job over its closed rounds, kept with the hash of what was measured, shown as a
page and as JSON.

`round_labels.py` reads what was said; `measures.py` measures a round of places, `groupings.py` a round of merges;
`services.py` starts the job and keeps what it found. Open rounds are never read: who labels in one sees nothing of it.
"""
