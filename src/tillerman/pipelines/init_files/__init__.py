"""The files that `tillerman init` writes, as they are in `.tillerman/`."""
