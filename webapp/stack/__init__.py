"""How Envarium starts: its services as child processes of one supervisor, everything below one folder."""
