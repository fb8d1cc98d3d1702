"""The database as all apps use it: released and lost connections, and SQL that is made once."""
