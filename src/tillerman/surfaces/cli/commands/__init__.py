"""Commands of the CLI, one module per command."""
