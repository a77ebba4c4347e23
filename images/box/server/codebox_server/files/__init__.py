"""The working folder: paths, entries, listings, uploads and the change scan."""
