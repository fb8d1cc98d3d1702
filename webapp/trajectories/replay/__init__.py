"""The replay page: a trajectory step by step, with the state and the checks at each.

A step's page is a function of its address and is sent as fragments: the list (`step_list.py`), the call and its changes
(`panels.py`, `state_diff.py`), the checks (`matrix_grid.py`), the timeline (`timeline.py`). `live.py` returns the new
parts of an attempt that still runs. States come from `webapp/trajectories/states.py`, never as a whole in a list.
"""
