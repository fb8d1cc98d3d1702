"""The pages of batches: lists, progress, items, calls, and actions on them.

`progress.py` reads what the page polls: the funnel out of `BatchStageCount`, open items by level and stage, the pace of
the last minutes, failures by signature; none of it grows with the calls. `batch_list.py` computes the progress of
batches from the roll-up and a count that stops at 2,000.

`templates/batches/show/` holds the pages; `live.html` is the part that comes back on `batch:ID`, at most every 1.5 s
(`data-live-every`), and every link and button in it has an id, so that the focus is kept. `filters.py` turns a query
string into items and calls: each number of the funnel links to its list. `stage_output.py` shows a stage's draft by its
content (program, plan, verdicts, steps), whatever the stage is called. `action_views.py` posts to the services that the
API calls, and shows the result in a message. `provenance_views.py` shows how a thing was made on the pages of
environments, scenarios, tasks and trajectories, which refer to it by its URL (`batches:made`).
"""
