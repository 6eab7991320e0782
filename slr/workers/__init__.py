"""A function of many items, on the cores of one machine or on the workers of a Dask cluster."""
