"""The idealised single-location model: exact risk and training dynamics."""
