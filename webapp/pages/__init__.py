"""Pages above all apps: home, search and palette, `statistics/`, health, recounts.

`theme_map/` draws the themes by likeness, colored by label, with what has grown from each. Its places
(`synthesis/themes/layout.py`) take seconds for thousands of themes and are stored. `recount.py` computes the roll-up
counts anew from the rows.
"""
