"""Initial states (EnvScaler 4.1): made by the author, constructed in the sandbox, and checked.

A scenario ends as `Rejected("state_invalid")` where the author's replies are no JSON, too large, name keys that the
program does not know, cannot be constructed, or hold references that lead nowhere.

`states.py` asks for a state of plain JSON; size, keys, references between records (`references.py`: what the schema's
names tell) and the construction in the sandbox are looked at while the author is still asked. `prompt_text.py` is what
prompts show of an environment and its state.
"""
