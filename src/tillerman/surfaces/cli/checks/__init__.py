"""The checks of `tillerman doctor`."""
