"""The theme map: which themes are placed, where, and how they are drawn."""
