"""What every router of the API shares: rights, problems, paging, entity tags, repeatable POSTs."""
