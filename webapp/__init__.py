"""Everything with rows, pages and routes."""
