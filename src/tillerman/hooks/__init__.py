"""Permission requests from CLI hooks: a socket server, a shim program, and per-CLI hook configs."""
