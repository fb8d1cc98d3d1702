"""Live updates: what changed is told by topic, ids only; who follows asks for the rest."""
