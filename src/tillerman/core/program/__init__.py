"""What a program passes to its sessions: callbacks, Python tools, the format of an answer."""
