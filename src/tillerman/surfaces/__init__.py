"""Ways in for people and programs; each is thin."""
