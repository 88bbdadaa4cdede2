"""Agent driver for Cursor's cloud agents: over HTTPS, without a process on this machine."""
