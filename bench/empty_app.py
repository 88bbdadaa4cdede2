"""The least Textual app: what any screen costs before it shows anything."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class Empty(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("ready")


if __name__ == "__main__":
    Empty().run()
