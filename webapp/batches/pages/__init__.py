"""Pages of a batch: its progress, its items and calls, and what people do with them."""
