"""Days of annotators in Chromium."""
