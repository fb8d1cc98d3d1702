"""The database as all apps use it: connections that are given back or gone, and SQL that is made once."""
