"""The web application: everything with rows, pages and routes."""
