"""GitHub Copilot CLI behind bridle's port."""
