"""Quality of checkers: measured on seeded faults (`synthesis/seeded_faults/`), stored, shown by kind and model."""
