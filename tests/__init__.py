"""Tests of tillerman: a folder for each package, and some for the whole product."""

from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
RECORDINGS = Path(__file__).with_name("recordings")
