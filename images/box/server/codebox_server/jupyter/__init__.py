"""Our side of Jupyter: managers, kernel specs and the ZeroMQ channel to a kernel."""
