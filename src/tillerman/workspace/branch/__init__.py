"""Branch workflow up to the merge: status, pull request, next action."""
