"""Near-duplicate themes: groups of similar ones, folded into one by decisions that can be undone.

`synthesis/themes/dedupe.py` compares texts by any vectoriser (local n-grams, or an endpoint's embeddings) and returns
groups: one kept, each other one similar to it. A batch does so among its own themes, the job `group_themes`
(`group_job.py`) among all.

`services.py` alone writes `Theme.folded_into`: under one advisory lock, as a `Decision` with what every theme was
before and after, so that `undo` can take it back. A kept theme is never itself folded; a decision that would make a
chain is refused. A user's verdict on a theme (kept apart, kept instead) holds when themes are grouped again.
"""
