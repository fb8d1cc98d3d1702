"""Accounts: people, roles, rights, API tokens and the audit log.

`access.py` is the table of who may do what; each page carries its rule, each operation of the API names its scope
(`webapp/rest/auth.py`). A token holds what it was given, cut at each use by what its owner's role grants then.

Services call `accounts.services.audit(person, action, object, ...)` in the transaction of the act. `origin.py` (set by
a middleware, then by the token) says whether the act came from a page, a token or a command. Triggers in PostgreSQL
refuse to change or empty the table of the audit log.
"""
