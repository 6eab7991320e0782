"""Attentions beyond the paper's: the best of each gate, whole layers, conditional means."""
