"""How each CLI speaks to its hooks: typed events, replies in its own form, its config."""
