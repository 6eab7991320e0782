"""The sources of sentences: a spec, your own file, or a folder that generate_data.py wrote."""
