"""Changes of the tree: move, merge, split, rename, delete, what a labelling session settled, and undo.

A change is drawn on a `draft.TreeDraft` (the whole tree in memory, which refuses what cannot be), and its differences
are a `delta.Delta`: nodes and things before and after, with what hangs where. `writes.py` alone writes a delta, with
counts exactly right and every address and path that it removes kept (`webapp/taxonomy/former.py`); `services.py` does
so under the tree's lock as one `TreeChange`, which undo reverses. `preview.py` lists what would be touched.

Upper apps register at `AppConfig.ready` what hangs on nodes (`hung.py`), what else names them (`affected.py`), and
hooks that run when a change is undone (`undo.py`).
"""
