"""The Bash kernel."""
