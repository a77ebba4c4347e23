# Generated from _async/__init__.py by generate.py.
