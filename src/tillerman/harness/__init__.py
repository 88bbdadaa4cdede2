"""Config in, running sessions out: agent selection, launch plan, fallback list, agent admin."""
