"""Where keys count: what can have the focus at once, by screen."""

from __future__ import annotations

from collections.abc import Mapping

from textual.dom import DOMNode

from bridle.surfaces.tui.app import BridleApp
from bridle.surfaces.tui.conversation.view import Conversation
from bridle.surfaces.tui.dialogs.confirmation import Confirmation
from bridle.surfaces.tui.dialogs.input_editor import InputEditor
from bridle.surfaces.tui.dialogs.mcp_panel import McpPanel
from bridle.surfaces.tui.dialogs.mode_picker import ModePicker
from bridle.surfaces.tui.dialogs.picker import Picker, Rows
from bridle.surfaces.tui.dialogs.request_prompt import RequestPrompt
from bridle.surfaces.tui.dialogs.session_browser import SessionBrowser
from bridle.surfaces.tui.prompt.prompt_box import PromptBox

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
