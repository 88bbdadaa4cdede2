"""Config files, environment and flags as one frozen Config that knows where each value is from."""

from bridle.config.layers import load
from bridle.config.settings import (
    APPROVE,
    SUPERVISION,
    Config,
    Limits,
    Source,
    Withheld,
    check_config,
)
from bridle.paths import Paths, find_paths, private_folder

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
