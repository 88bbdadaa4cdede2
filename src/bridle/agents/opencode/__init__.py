"""OpenCode behind bridle's port."""
