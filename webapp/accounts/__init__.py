"""Accounts: people, roles, rights, API tokens and the audit log.

`access.py` is the table of rights; each page has its rule, each operation of the API names its scope
(`webapp/common/rest/auth.py`). A token has the scopes it was given, limited at each use to those that its owner's role
grants.

Services call `accounts.services.audit(person, action, object, ...)` in the transaction of the act. `origin.py` (set by
a middleware, then by the token) records whether the act came from a page, a token or a command. Triggers in PostgreSQL
refuse to change or empty the table of the audit log.
"""
