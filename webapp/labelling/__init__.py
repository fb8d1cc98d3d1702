"""Labelling sessions on the taxonomy: people place things or group labels, blindly; adjudicators settle.

What is asked is frozen by value when a session opens (`frozen.py`). A round asks each item of `overlap` people; who
holds one is in `reservations.py`, what they said in `answers.py`, and who may see it in `visibility.py`: in an open
round nobody but its author. `adjudication.py` settles what people disagree on,
`outcome/` says what that makes of the tree; `proposals/` asks a model, which counts for nothing.
"""
