"""Objective of RL: rows, masks, advantages, correction for the sampler, loss."""
