"""Jobs on many files, each in its own process: it can be killed, and its memory is separate from the server's."""
