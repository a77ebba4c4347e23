"""Notebooks: run whole in a kernel of their own, and made from the executions of the box."""
