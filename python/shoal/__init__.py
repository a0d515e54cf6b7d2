"""Shoal: sharded training of PyTorch models with a C++ core.

Importing touches no device, starts no thread and writes no environment variable.
"""

from shoal import _load
from shoal.config import Config
from shoal.engine import Engine
from shoal.mesh import Mesh
from shoal.version import __version__

ShoalError = _load.core.ShoalError
InvalidArgumentError = _load.core.InvalidArgumentError
ConfigError = _load.core.ConfigError
CheckpointError = _load.core.CheckpointError
CollectiveTimeout = _load.core.CollectiveTimeout
UnsupportedError = _load.core.UnsupportedError

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
