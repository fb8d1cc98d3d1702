"""Rows that imports and batches stored beside human work, and their adoption."""
