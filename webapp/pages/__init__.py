"""What sits above all apps: home, health, uploads."""
