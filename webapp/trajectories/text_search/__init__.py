"""Search for trajectories by the words of their text, and the step in which the words stand.

`words.py` splits texts into words, `text_rows.py` stores those of a trajectory when it ends, `matches.py` narrows lists
to the trajectories that have all words of a query, `snippets.py` shows where they stand. `older_texts.py` is the job
that stores the words of trajectories from before there was a table of words.
"""
