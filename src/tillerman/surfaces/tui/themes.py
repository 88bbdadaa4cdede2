"""Color themes of the terminal interface: two built-in themes besides Textual's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.terminal_theme import TerminalTheme
from textual.app import App
from textual.color import Color
from textual.theme import Theme

from tillerman.core.errors import TillermanError
from tillerman.surfaces.rendering import formatting

DEFAULT = "tillerman-dark"

DARK = Theme(
    name="tillerman-dark",
    primary="#7cb7e8",
    secondary="#9aa7d8",
    accent="#d9b36c",
    warning="#e0b15e",
    error="#ef8b85",
    success="#8cc58c",
    foreground="#d7dbe0",
    background="#16191d",
    surface="#1d2126",
    panel="#262b32",
    boost="#ffffff0a",
    dark=True,
    variables={
        "block-cursor-background": "#263d52",
        "block-cursor-foreground": "#f2f5f8",
        "block-cursor-text-style": "none",
        "block-hover-background": "#262b32",
        "border": "#4d7ba3",
        "border-blurred": "#3a4149",
        "footer-key-foreground": "#d9b36c",
        "footer-background": "#1d2126",
        "input-cursor-background": "#d7dbe0",
        "input-cursor-foreground": "#16191d",
        "input-selection-background": "#3d6488 60%",
        "scrollbar": "#3a4149",
        "scrollbar-background": "#1b1f24",
        "text-muted": "#a3adb8",
        "text-disabled": "#78828c",
        "text-primary": "#7cb7e8",
        "text-secondary": "#9aa7d8",
        "text-accent": "#d9b36c",
        "text-warning": "#e0b15e",
        "text-error": "#ef8b85",
        "text-success": "#8cc58c",
    },
)
LIGHT = Theme(
    name="tillerman-light",
    primary="#1c5d95",
    secondary="#4a5596",
    accent="#8a5a00",
    warning="#845600",
    error="#b3261e",
    success="#23692a",
    foreground="#23282d",
    background="#fbfaf7",
    surface="#f2f0eb",
    panel="#e6e3dc",
    boost="#0000000a",
    dark=False,
    variables={
        "block-cursor-background": "#cfe0ef",
        "block-cursor-foreground": "#14181c",
        "block-cursor-text-style": "none",
        "block-hover-background": "#e6e3dc",
        "border": "#6b93b5",
        "border-blurred": "#c4c0b6",
        "footer-key-foreground": "#8a5a00",
        "footer-background": "#f2f0eb",
        "input-cursor-background": "#23282d",
        "input-cursor-foreground": "#fbfaf7",
        "input-selection-background": "#a9c8e3 70%",
        "scrollbar": "#c4c0b6",
        "scrollbar-background": "#efece6",
        "text-muted": "#565d64",
        "text-disabled": "#6d747b",
        "text-primary": "#1c5d95",
        "text-secondary": "#4a5596",
        "text-accent": "#7d5200",
        "text-warning": "#7d5200",
        "text-error": "#b3261e",
        "text-success": "#23692a",
    },
)
OWN = (DARK, LIGHT)


def _colors(ground: str, ink: str, normal: str, bright: str) -> TerminalTheme:
    """Rows in the order black, red, green, yellow, blue, magenta, cyan, white."""
    rows = [[Color.parse(color).rgb for color in row.split()] for row in (normal, bright)]
    return TerminalTheme(Color.parse(ground).rgb, Color.parse(ink).rgb, *rows)


# ANSI palette of the conversation.
DARK_COLORS = _colors(
    "#16191d",
    "#d7dbe0",
    "#78828c #ef8b85 #8cc58c #e0b15e #7cb7e8 #c79fdc #79c3c9 #d7dbe0",
    "#9aa4af #f5a49f #a5d6a5 #ecc67f #9bcaf0 #d6b8e6 #97d3d8 #ffffff",
)
LIGHT_COLORS = _colors(
    "#fbfaf7",
    "#23282d",
    "#23282d #b3261e #23692a #7d5200 #1c5d95 #7b3f94 #15656d #565d64",
    "#565d64 #9c1f18 #1c5a23 #6a4600 #164d7d #69327f #0f545b #23282d",
)


def apply_theme(app: App[Any], name: str = DEFAULT) -> None:
    """Registers the themes and sets the initial one."""
    for theme in OWN:
        app.register_theme(theme)
    app.ansi_theme_dark, app.ansi_theme_light = DARK_COLORS, LIGHT_COLORS
    app.theme = name if name in app.available_themes else DEFAULT


def usual(folder: Path) -> str:
    """Configured theme, loaded before the harness, so that a light screen does not start dark."""
    from tillerman.config import load

    try:
        return load(folder).screen.theme
    except TillermanError:  # reported when the harness is opened
        return DEFAULT


def choose(app: App[Any], name: str) -> list[str]:
    """Sets the theme; returns error messages."""
    if name not in app.available_themes:
        known = ", ".join(sorted(app.available_themes))
        return [f"unknown theme {formatting.one_line(name)!r}: {known}"]
    app.theme = name
    return []
