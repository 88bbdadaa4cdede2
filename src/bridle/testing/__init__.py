"""What bridle ships for tests: its own, and those of people who add agents."""
