"""Changes of the working folder as a numbered stream: notifications name folders, and a scan finds what changed."""
