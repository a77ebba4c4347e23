"""The parent of box servers: one process per host with everything imported, from which the servers of boxes are forked.

It holds no secret and no data of a box: whatever differs between boxes reaches the forked process alone.
"""
