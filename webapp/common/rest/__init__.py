"""Shared parts of the routers of `/api/v1`: rights, problems, paging, entity tags, repeatable POSTs.

`auth.py` finds the caller (a token, else a session with CSRF) and what the caller's role grants now; each operation
names its rule as `auth`. An operation reads through its app's queries and writes through its services, as pages do.
`webapp/api.py` mounts the routers, adds entity tags to answers (304, `etags.py`) and answers HEAD; `strict.py` refuses
parameters, parts of forms and fields that the operation does not know, `types.py` values that PostgreSQL cannot store;
`etags.py` refuses a stale `If-Match` (412); `idempotency.py` runs a POST, or a form of a page, and stores its answer in
one transaction under a lock of its key; `limits.py` counts requests by token.

Every error becomes a problem in `problems.py`: those of the domain (`webapp/common/errors.py`) by the table of
`webapp/common/error_responses.py`, expected ones of the frameworks as handlers, the rest (404 and 405 of routing, 500)
as a middleware. `webapp/pages/api_reference.py` renders the schema as a page.
"""
