"""Lexer and parser of shell command lines; the result is a syntax tree."""
