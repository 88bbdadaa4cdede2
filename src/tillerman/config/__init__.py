"""Config files, environment and flags as one frozen Config that knows where each value is from."""

from tillerman.config.layers import load
from tillerman.config.settings import (
    APPROVE,
    SUPERVISION,
    Config,
    Limits,
    Source,
    Withheld,
    check_config,
)
from tillerman.paths import Paths, find_paths, private_folder

__all__ = [
    "APPROVE",
    "SUPERVISION",
    "Config",
    "Limits",
    "Paths",
    "Source",
    "Withheld",
    "check_config",
    "find_paths",
    "load",
    "private_folder",
]
