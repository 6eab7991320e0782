"""Training on five overlaps: steps, runs and their outcomes, and how training scales with d."""
