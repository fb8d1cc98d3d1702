"""Two to four attempts at one task side by side: where they part, what each did from there, what the checks say.

`alignment.py` puts their steps in rows, `parting_point.py` finds the row at which they part and says it in a
sentence; both know nothing of the database. `queries.py` reads the attempts, `call_texts.py` and `table.py` make what
is shown, `check_grid.py` sets the verdicts beside each other. The page and the API show the same `Comparison`.
"""
