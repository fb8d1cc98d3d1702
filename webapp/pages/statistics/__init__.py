"""Statistics: contents of environments, results of attempts at their tasks, and the progress of review and audits.

`ecosystem.py` reads one short row per environment, of all, of a filter or of a batch's products, and computes means,
medians and bins of them (`distributions.py`) in EnvScaler's terms (Table 2, Figure 8). `tool_verdicts.py` ranks tools
by the newest assessment of each version. `difficulty_pictures.py` compares success with the difficulty of tasks, from
short rows that `webapp/scenarios/measures/` stores. A batch's page loads the part `pages:ecosystem-part`.
"""
