"""Everything that runs in a box: executions, commands, their journals and their ends."""
