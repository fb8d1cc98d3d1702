"""Labelling sessions on the taxonomy: people place things or group labels, blindly; adjudicators settle.

What is asked is frozen by value when a session opens (`frozen.py`). A round asks each item of `overlap` people; holds
of items are in `reservations.py`, answers in `answers.py`, and the right to see them in `visibility.py`: in an open
round only the author sees a label. `adjudication.py` settles what people disagree on, `outcome/` computes what that
changes in the tree; `proposals/` asks a model, whose labels count for nothing.
"""
