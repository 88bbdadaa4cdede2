"""Key bindings of the main screen."""

from __future__ import annotations

from textual.binding import Binding

KEYS = (
    Binding("escape", "cancel_turn", "Cancel", id="cancel"),
    Binding("f2", "repo_action", "Next step", id="repo-action"),
    Binding("f3", "repo_link", "Copy link", id="repo-link", show=False),
    Binding("ctrl+q", "leave", "Quit", id="quit", priority=True),
    Binding("ctrl+g", "pick_agent", "Agent", id="agent"),
    Binding("ctrl+o", "pick_model", "Model", id="model"),
    Binding(
        "shift+tab", "next_approval", "Approval", id="approval", key_display="⇧tab",
        priority=True,
    ),
    Binding("f5", "pick_mode", "Mode", id="mode", show=False),
    Binding("ctrl+l", "browse_sessions", "Sessions", id="sessions"),
    Binding("f4", "mcp_panel", "MCP servers", id="mcp", show=False),
    Binding("f8", "pick_theme", "Theme", id="theme", show=False),
    Binding("ctrl+t", "new_tab", "New tab", id="new-tab", show=False),
    Binding("ctrl+w", "close_tab", "Close tab", id="close-tab", show=False, priority=True),
    Binding("ctrl+pagedown", "next_tab", "Next tab", id="next-tab", show=False, priority=True),
    Binding(
        "ctrl+pageup", "previous_tab", "Previous tab", id="previous-tab", show=False,
        priority=True,
    ),
    *(
        Binding(
            f"alt+{number}", f"go_to_tab({number})", f"Tab {number}", id=f"tab-{number}",
            show=False, priority=True,
        )
        for number in range(1, 10)
    ),
    Binding("ctrl+p", "command_palette", "Commands", id="palette", show=False, priority=True),
)  # fmt: skip

# Actions disabled in a dialog, which has its own bindings.
OF_PANES = frozenset({
    "cancel_turn", "pick_agent", "pick_model", "pick_mode", "pick_approval", "next_approval",
    "pick_theme", "browse_sessions", "mcp_panel", "new_tab", "close_tab", "next_tab",
    "previous_tab", "go_to_tab", "repo_action", "repo_link",
})  # fmt: skip
