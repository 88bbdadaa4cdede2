"""Parser of shell command lines: which programs they run, on which files, and what is unclear."""
