"""The log folded for reading: transcript, turn results, summaries and titles."""
