"""Rollouts of training steps: read, shown, executed again."""
