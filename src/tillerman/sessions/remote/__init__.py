"""Access from other processes: the owner's socket, private sockets, notifications."""
