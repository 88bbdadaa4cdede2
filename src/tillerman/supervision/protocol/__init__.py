"""Messages between the harness and its warden."""
