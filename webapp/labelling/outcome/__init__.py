"""What comes of a session.

`outcomes.py` reads what its settled items make of the tree as it is now, and what hinders it; `effects.py` carries that
out as one change of the tree and takes notice when it is undone; `tree_parts.py` says what sessions have to do with a
part of the tree.
"""
