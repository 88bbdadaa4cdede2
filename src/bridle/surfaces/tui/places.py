"""Where keys count: what can have the focus at once, by screen."""

from __future__ import annotations

from collections.abc import Mapping

from textual.dom import DOMNode

from bridle.surfaces.tui.app import BridleApp
from bridle.surfaces.tui.confirmation import Confirmation
from bridle.surfaces.tui.conversation import Conversation
from bridle.surfaces.tui.input_editor import InputEditor
from bridle.surfaces.tui.mcp_panel import McpPanel
from bridle.surfaces.tui.mode_picker import ModePicker
from bridle.surfaces.tui.picker import Picker, Rows
from bridle.surfaces.tui.prompt_box import PromptBox
from bridle.surfaces.tui.request_prompt import RequestPrompt
from bridle.surfaces.tui.session_browser import SessionBrowser

PLACES: Mapping[str, tuple[type[DOMNode], ...]] = {
    "prompt": (BridleApp, PromptBox),
    "conversation": (BridleApp, Conversation),
    "request": (BridleApp, RequestPrompt),
    "pickers": (Picker, Rows),
    "mode": (Picker, ModePicker),
    "sessions": (SessionBrowser, Rows),
    "mcp": (McpPanel, Rows),
    "confirmation": (Confirmation,),
    "input": (InputEditor,),
}
