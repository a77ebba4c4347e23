"""Figures of matplotlib as data: the source of `application/vnd.codebox.chart+json`, which accompanies their PNG.

A figure is read when IPython formats it. `formatter` is the hook into a shell, `recording` keeps what matplotlib
itself forgets, `figure` and `axes` walk the artists, one module per kind of series reads them, and `series` limits
the whole. Only `formatter` and `recording` are imported before the first figure is shown.
"""
