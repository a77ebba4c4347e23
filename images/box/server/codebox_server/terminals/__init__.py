"""Interactive shells on pseudo terminals."""
