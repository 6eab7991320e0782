"""Grids of settings, computed cell by cell on any number of cores.

>>> from slr.sweep import *
>>> table = sweep(train_cell, cell_grid({"lam": [0.1, 0.2], "n_steps": 10}), folder, jobs=1).table
>>> table["lam"].tolist()
[0.1, 0.2]
"""

from slr.sweep.cells import cell_grid, train_cell
from slr.sweep.engine import Swept, sweep
from slr.sweep.grid import Grid, expand_range

__all__ = ["Grid", "Swept", "cell_grid", "expand_range", "sweep", "train_cell"]
