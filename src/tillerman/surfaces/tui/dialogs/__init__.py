"""Dialogs and pickers of the terminal interface."""
