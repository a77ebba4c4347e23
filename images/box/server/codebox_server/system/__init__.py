"""The operating system: processes, control groups, clocks."""
