"""What an edit does to a task (`task_effects.py`), its golden state and its stored attempts."""
