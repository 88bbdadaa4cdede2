"""Reads the JSON of vendors: fields, images, questions, streamed text."""
