"""Live sessions: who runs them, what goes into their log, how they are followed."""
