"""The image as a container of its own, without CodeBox: what the Python package `codeboxapi` starts as a DockerBox.

`__main__` prepares a box and serves it, `handlers` has the paths of that client, `chunks` the form of its output.
There are no keys: whoever started the container reaches its port.
"""
