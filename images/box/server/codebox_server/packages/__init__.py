"""Packages of a box: installing and listing them, and telling which one a program lacks."""
