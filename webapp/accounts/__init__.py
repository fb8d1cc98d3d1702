"""Users, roles and access rules."""
