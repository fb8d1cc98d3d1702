"""Environments, tasks and teachers of the demo: all parts that need no torch. Its model is in `training.demo`."""
