"""The way of a branch to its merge: status, pull request, next action."""
