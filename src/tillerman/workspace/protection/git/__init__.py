"""Reads a repository without running its programs: folders, config, index, known commits."""
