"""Helpers that decode vendor JSON: fields, images, questions, streamed text."""
