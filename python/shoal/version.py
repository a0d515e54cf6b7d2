"""The version of this installation."""

from shoal._build_info import VERSION

__version__: str = VERSION
