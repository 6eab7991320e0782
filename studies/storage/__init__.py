"""Results on disk: their folders, files and tables."""
