"""Changes of the tree: move, merge, split, rename, delete, what a labelling session settled, and undo.

A change is drawn on a `draft.TreeDraft` (the whole tree in memory, which refuses what cannot be), and what it differs
in is a `delta.Delta`: nodes and things before and after, with what hangs where. `writes.py` alone writes a delta, with
counts exactly right and every address and path that it takes away kept (`webapp/taxonomy/former.py`); `services.py`
does so under the tree's lock as one `TreeChange`, which undo turns round. `preview.py` says what would be touched.

What hangs on nodes (`hung.py`), what else names them (`affected.py`), and who has a say when something is undone
(`undo.py`), upper apps register at `AppConfig.ready`.
"""
