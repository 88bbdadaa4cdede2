"""Protected files of a workspace: watch them, detect changes, restore them."""
