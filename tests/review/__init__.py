"""Review: queues, who holds an item, decisions and their undoing."""
