"""Changes of the working folder as a numbered stream: notifications say where to look, and a scan finds what changed.
"""
