"""Access to servers that run in this box."""
