"""Themes: the sources of environments, and the detection of equal ones.

They come from task sets (`tasks.py`, ES 3.1: does a task belong to a stateful, domain-specific environment, and to
which?), MCP servers and tool documents (`specifications.py`; `inversion.py` names those that consist only of tools) or
a user's text (`typed.py`). `dedupe.py` compares texts by any vectoriser (`vectors.py`: local n-grams;
`synthesis/llm/embedding.py`: an endpoint's) and keeps one of each group; `judged_groups.py` has a judge
(`pair_judge.py`) decide on the nearest pairs instead, `same_themes.py` for a batch; `layout.py` places them on a plane.
"""
