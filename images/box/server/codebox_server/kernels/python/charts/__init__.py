"""Figures of matplotlib as data: what `application/vnd.codebox.chart+json` beside their PNG is made of.

A figure is read when IPython formats it. `formatter` is the hook into a shell, `recording` keeps what matplotlib itself
forgets, `figure` and `axes` walk the artists, one module per kind of series reads them, `series` bounds the whole.
Nothing but `formatter` and `recording` is imported before the first figure is shown.
"""
