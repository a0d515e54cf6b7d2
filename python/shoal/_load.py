"""Loads the native core, after checking that this torch is the one that it was built against."""

import torch

from shoal._build_info import TORCH_VERSION


def _require_same_torch(built: str, found: str) -> None:
    """Raise ImportError unless the two versions agree.

    The core uses torch's C++ interface, which has no stable ABI between releases. Local suffixes
    (`+cpu`, `+cu130`) may differ: the interface is the same.
    """
    if built.split("+", maxsplit=1)[0] != found.split("+", maxsplit=1)[0]:
        msg = (
            f"shoal was built against torch {built}, but torch {found} is installed: "
            "build shoal again for this torch (`pip install --no-build-isolation .` or `make`), "
            f"or install torch {built}"
        )
        raise ImportError(msg)


_require_same_torch(TORCH_VERSION, torch.__version__)

from shoal import _core as core  # noqa: E402  (only after the check: loading it would fail obscurely)

__all__ = ["core"]
