"""Shell commands of a workspace: started, read, fed, killed, found again after a restart."""
