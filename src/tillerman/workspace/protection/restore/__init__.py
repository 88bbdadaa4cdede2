"""Undoes changes of protected files: restores them and quarantines what replaced them."""
