"""The outcome of a session.

`outcomes.py` computes what its settled items change in the tree as it is now, and what hinders that; `effects.py`
carries it out as one change of the tree and reopens the session when that is undone; `tree_parts.py` relates sessions
to a part of the tree.
"""
