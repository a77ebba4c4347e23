"""Work on many files, each job in a process of its own: it can be killed, and its memory is not the server's."""
