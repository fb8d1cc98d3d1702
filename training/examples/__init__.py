"""The demo's environments, tasks and teachers: all of it that needs no torch. Its model is in `training.demo`."""
