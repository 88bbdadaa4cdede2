"""Live sessions: running them, writing their log, following them from other processes."""
