"""The live connection to one agent, and its current settings."""
