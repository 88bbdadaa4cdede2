"""Checks run by `tillerman doctor`."""
