"""Training on five overlaps: steps, runs, their outcomes, and how they scale with d."""
