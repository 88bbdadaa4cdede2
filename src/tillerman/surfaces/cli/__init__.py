"""The command line. Heavy modules are imported lazily by the command that needs them."""
