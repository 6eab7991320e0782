"""The Transformer and what it knows: training, probes, sparsity, causal tests."""
