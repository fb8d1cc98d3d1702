"""Live updates: changes are published by topic, as ids; who follows asks for the rest."""
