"""User and program interfaces: command line, terminal interface and shared rendering."""
