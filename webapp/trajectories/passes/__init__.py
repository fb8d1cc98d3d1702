"""Pass counts of policies at tasks, stored beside the attempts that they count.

Agent-World measures difficulty by Pass@10 of a named model (Figure 4 f): how many of its ten attempts at a task solved
it. `policy_passes.py` counts a pair of revision and policy anew whenever one of its attempts is judged, in the same
transaction; lists, pages and statistics read the counts and never the attempts.
"""
