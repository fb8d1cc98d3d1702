"""Shared parts of the API: rights, problems, paging, entity tags, repeatable POSTs."""
