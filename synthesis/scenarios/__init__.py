"""Initial states (EnvScaler 4.1): made by the author, constructed in the sandbox, and checked.

A scenario ends as `Rejected("state_invalid")` where the author's replies are no JSON, too large, name keys that the
program does not know, cannot be constructed, or hold references that lead nowhere.
"""
