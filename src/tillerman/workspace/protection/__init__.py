"""Protected names of a workspace: what lies there, what changes it, and how it is restored."""
