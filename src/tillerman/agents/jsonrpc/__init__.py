"""JSON-RPC peer without I/O."""
