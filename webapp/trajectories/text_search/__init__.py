"""Search for trajectories by the words of their text, and for the step that contains the words.

`words.py` splits texts into words, `text_rows.py` stores those of a trajectory when it ends, `matches.py` filters lists
by trajectories that have all words of a query, `snippets.py` shows the places of the words. `older_texts.py` is the job
that stores the words of trajectories from before the table of words existed.
"""
