"""File tools that cannot leave the workspace root."""
