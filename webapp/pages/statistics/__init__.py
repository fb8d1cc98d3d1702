"""Statistics: what environments hold, how attempts at their tasks went, and how review and audits went on.

`ecosystem.py` reads one short row per environment, of all, of a filter or of a batch's products, and makes means,
medians and bins of them (`distributions.py`) in EnvScaler's terms (Table 2, Figure 8). `tool_verdicts.py` ranks tools
by the newest assessment of each version. A batch's page loads the part `pages:ecosystem-part`.
"""
