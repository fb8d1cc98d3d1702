"""Parts of a selection beyond its filter: the environments that are drawn, and what other datasets exclude.

`resolved.py` draws: half of the environments by their likeness to a given set (`likeness.py`, EnvScaler 5.3), then so
many of them by a seed, so that ten are within twenty (EnvScaler 5.4). `apart.py` reads what the datasets hold that this
one must share nothing with. `words.py` describes a selection in words.
"""
