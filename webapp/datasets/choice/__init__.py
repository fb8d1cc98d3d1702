"""What a selection comes to beyond its filter: which environments are drawn, and what other datasets forbid.

`resolved.py` draws: half of the environments by their likeness to a given set (`likeness.py`, EnvScaler 5.3), then so
many of them by a seed, so that ten are within twenty (EnvScaler 5.4). `apart.py` reads what the datasets hold that this
one shall share nothing with. `words.py` says a selection in words.
"""
