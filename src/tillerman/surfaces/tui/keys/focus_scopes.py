"""Focus scopes: the widgets whose key bindings are active together, by screen."""

from __future__ import annotations

from collections.abc import Mapping

from textual.dom import DOMNode

from tillerman.surfaces.tui.app import TillermanApp
from tillerman.surfaces.tui.conversation.view import ConversationView
from tillerman.surfaces.tui.dialogs.confirmation import Confirmation
from tillerman.surfaces.tui.dialogs.input_editor import InputEditor
from tillerman.surfaces.tui.dialogs.mcp_panel import McpPanel
from tillerman.surfaces.tui.dialogs.mode_picker import ModePicker
from tillerman.surfaces.tui.dialogs.picker import Picker, Rows
from tillerman.surfaces.tui.dialogs.request_prompt import RequestPrompt
from tillerman.surfaces.tui.dialogs.session_browser import SessionBrowser
from tillerman.surfaces.tui.prompt.prompt_box import PromptBox

PLACES: Mapping[str, tuple[type[DOMNode], ...]] = {
    "prompt": (TillermanApp, PromptBox),
    "conversation": (TillermanApp, ConversationView),
    "request": (TillermanApp, RequestPrompt),
    "pickers": (Picker, Rows),
    "mode": (Picker, ModePicker),
    "sessions": (SessionBrowser, Rows),
    "mcp": (McpPanel, Rows),
    "confirmation": (Confirmation,),
    "input": (InputEditor,),
}
