"""Pages above all apps: home, statistics of environments, the theme map, health, recounts.

`ecosystem.py` reads one short row an environment, of all, of a filter or of a batch's products, and makes means,
medians and bins of them (`distributions.py`) in EnvScaler's terms (Table 2, Figure 8); verdicts by tool are the rates
of the newest assessment of each version. A batch's page loads the part `pages:ecosystem-part`. `theme_map/` draws
the themes by likeness, coloured by label, with what has grown from each. Its places
(`synthesis/themes/layout.py`) take seconds for thousands of themes and are kept.
`recount.py` says the roll-up counts anew from the rows.
"""
