"""The box server: the one process in a box that the gateway talks to."""
