"""Themes: what environments are grown from, and which of them say the same.

They come out of task sets (`tasks.py`, ES 3.1: is a task at home in a stateful, domain-specific environment, and in
which?), MCP servers and tool documents (`specifications.py`; `inversion.py` names those
that are no more than tools) or a person's words (`typed.py`). `dedupe.py` compares
texts by any vectoriser (`vectors.py`: local n-grams; `synthesis/llm/embedding.py`: an endpoint's) and keeps one of each
group; `judged_groups.py` has a judge (`pair_judge.py`) decide on the nearest pairs instead, `same_themes.py` for a
batch; `layout.py` lays them out on a plane.
"""
