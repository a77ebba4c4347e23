"""The fork server: one process with the usual libraries loaded, from which Python kernels are forked."""
