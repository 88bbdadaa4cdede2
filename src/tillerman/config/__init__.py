"""Loads config files, environment and flags into one frozen Config that records value sources."""

from tillerman.config.layers import load
from tillerman.config.settings import (
    APPROVE,
    SUPERVISION,
    Config,
    IgnoredSetting,
    LimitsConfig,
    Source,
    check_config,
)
from tillerman.paths import Paths, find_paths, private_folder

__all__ = [
    "APPROVE",
    "SUPERVISION",
    "Config",
    "IgnoredSetting",
    "LimitsConfig",
    "Paths",
    "Source",
    "check_config",
    "find_paths",
    "load",
    "private_folder",
]
