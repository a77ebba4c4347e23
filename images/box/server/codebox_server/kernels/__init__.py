"""Code that runs inside kernel processes, with one folder and kernel.json per language."""
