"""Access to the files of a workspace: confined to its root, locked, without links."""
