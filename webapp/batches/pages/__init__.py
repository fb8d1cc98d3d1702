"""The pages of batches: lists, progress, items, calls, and what people do with them.

`progress.py` reads what the page asks for again and again: the funnel out of `BatchStageCount`, open items by level
and stage, the pace of the last minutes, failures by signature; none of it grows with the calls. `batch_list.py` says
how far batches are from the roll-up and a count that stops at 2,000.

`templates/batches/show/` holds the pages; `live.html` is the part that comes back on `batch:ID`, at most every 1.5 s
(`data-live-every`), and every link and button in it has an id, so that the focus stays where it was. `filters.py`
turns a query string into items and calls: a number of the funnel is the list behind it. `stage_output.py` shows a
stage's draft by what it holds (program, plan, verdicts, steps), whatever the stage is called. `action_views.py` posts
to the services that the API calls, and says what came of it once. `provenance_views.py` says how a thing was made, to
the pages of environments, scenarios, tasks and trajectories, which name it by its URL (`batches:made`).
"""
