"""Effects of an edit on a task (`task_effects.py`), its golden state and its stored attempts."""
