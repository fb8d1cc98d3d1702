"""Review: queues of tasks, failing tools and trajectories, and decisions of people on them.

A queue (`ReviewQueue`) is a saved filter with an order; its items (`QueueItem`) are pulled by people, who hold them for
a while (`Assignment`). A decision (`ReviewDecision`) names the revision that its author saw, and never changes: it is
undone, or another one follows. The database enforces how many people decide on an item (its overlap): an item's free
places are never below zero, and no two assignments have one place. A note of a person on an object is a `Remark`.
"""
