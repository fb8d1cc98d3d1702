"""What is learnt from attempts: rows, who counts, advantages, correction of the sampler, loss."""
