"""Ways to the servers that run in this box."""
