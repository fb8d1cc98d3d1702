"""Agreement of a session: measured by a job over its closed rounds, kept with the hash of what was measured, shown as a
page and as JSON.

`round_labels.py` reads the labels; `measures.py` measures a round of places, `groupings.py` a round of merges;
`services.py` starts the job and stores its results. Open rounds are never read: people who label see nothing of them.
"""
