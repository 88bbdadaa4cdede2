"""Permission by side door, for CLIs that call out: a socket, a shim, and a config for each CLI."""
