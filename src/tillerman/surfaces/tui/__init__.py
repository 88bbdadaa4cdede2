"""The terminal interface (Textual)."""
