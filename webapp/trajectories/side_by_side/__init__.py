"""Two to four attempts at one task side by side: their parting, the steps of each after it, the verdicts of the checks.

`alignment.py` puts their steps in rows, `parting_point.py` finds the row at which they part and describes it in a
sentence; both do not use the database. `queries.py` reads the attempts, `call_texts.py` and `table.py` make what is
shown, `check_grid.py` sets the verdicts beside each other. The page and the API show the same `Comparison`.
"""
