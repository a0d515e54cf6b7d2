"""What a checkpoint of an engine holds, and how an engine continues from one."""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING, Any

import torch

from shoal import checkpoint
from shoal._load import core
from shoal.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from shoal.engine import Engine
