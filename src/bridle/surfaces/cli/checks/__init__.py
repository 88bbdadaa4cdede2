"""The checks of `bridle doctor`."""
