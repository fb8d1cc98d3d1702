"""Review over the API: queues, items and holds, decisions and drafts, remarks, a router each.

Every write understands `If-Match`. One that may overwrite another person's work needs it (428 without): a queue's
settings, open and closed, an item that is given to or taken from a person, a decision and its undoing, a draft. One
that only appends, or is bound to the caller's own hold, may be sent without: remarks, heartbeats, skip, give back,
pulling the next item. In a bulk decision each task carries `seen` in its place.
"""
