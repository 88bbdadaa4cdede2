"""Parts of an HTTP server on this machine: connection limits, token files, listening sockets."""
