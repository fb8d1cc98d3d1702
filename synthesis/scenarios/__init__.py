"""Initial states (EnvScaler 4.1): written by the author, constructed in the sandbox, and checked.

A scenario ends as `Rejected("state_invalid")` if the author's replies are no JSON, too large, name keys that the
program does not know, cannot be constructed, or contain dangling references.

`states.py` asks for a state of plain JSON; size, keys, references between records (`references.py`: derived from the
names in the schema) and the construction in the sandbox are checked while the author can still be asked.
`prompt_text.py` formats an environment and its state for prompts.
"""
