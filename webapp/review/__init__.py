"""Review: queues of tasks, failing tools and trajectories, and what people decide on them.

A queue (`ReviewQueue`) is a saved filter with an order; its items (`QueueItem`) are pulled by people, who hold them for
a while (`Assignment`). A decision (`ReviewDecision`) names the revision that its author saw, and never changes: it is
undone, or another one follows. How many people decide on an item (its overlap) is kept by the database: an item's free
places are never below zero, and no two assignments have one place. What people write beside an object is a `Remark`.
"""
