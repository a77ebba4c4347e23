"""Packages of a box: installs and lists them, and names the one that a program lacks."""
