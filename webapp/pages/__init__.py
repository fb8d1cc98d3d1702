"""Pages above all apps: home, search and palette, `statistics/`, health, recounts.

`recount.py` says the roll-up counts anew from the rows.
"""
