"""Key bindings: those of the app, the configured key map, and focus scopes."""
