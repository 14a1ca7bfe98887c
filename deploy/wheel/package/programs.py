"""Starts the programs of Muster that lie in the folder bin beside this file."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import NoReturn


def _become(program: str) -> NoReturn:
    package = os.path.dirname(os.path.abspath(__file__))
    # The trainer looks for torch beside this package. Where pip found it elsewhere, as with
    # --system-site-packages, it is told.
    if "MUSTER_TORCH" not in os.environ and not os.path.isdir(os.path.join(package, "..", "torch")):
        torch = importlib.util.find_spec("torch")  # without importing it
        if torch is not None and torch.submodule_search_locations:
            os.environ["MUSTER_TORCH"] = torch.submodule_search_locations[0]
    path = os.path.join(package, "bin", program)
    os.execv(path, [path, *sys.argv[1:]])


def muster() -> NoReturn:
    _become("muster")


def muster_data() -> NoReturn:
    _become("muster-data")


def muster_trainer() -> NoReturn:
    _become("muster-trainer")


def muster_worker() -> NoReturn:
    _become("muster-worker")


def musterd() -> NoReturn:
    _become("musterd")
