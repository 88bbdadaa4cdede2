"""Rows of the program table, by kind of program."""
