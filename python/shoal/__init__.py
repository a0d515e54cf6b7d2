"""Shoal: sharded training of PyTorch models with a C++ core.

Importing touches no device, starts no thread and writes no environment variable.
"""

from shoal._load import core as _core
from shoal.config import Config
from shoal.engine import Engine
from shoal.mesh import Mesh
from shoal.version import __version__

ShoalError = _core.ShoalError
InvalidArgumentError = _core.InvalidArgumentError
ConfigError = _core.ConfigError
CheckpointError = _core.CheckpointError
CollectiveTimeout = _core.CollectiveTimeout
UnsupportedError = _core.UnsupportedError

__all__ = [
    "CheckpointError",
    "CollectiveTimeout",
    "Config",
    "ConfigError",
    "Engine",
    "InvalidArgumentError",
    "Mesh",
    "ShoalError",
    "UnsupportedError",
    "__version__",
]
