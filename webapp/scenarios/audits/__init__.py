"""Audits of tasks as rows, pages, API and background job."""
