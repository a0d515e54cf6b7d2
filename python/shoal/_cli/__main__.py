"""`python -m shoal._cli`: the command `shoal` where its script is not installed."""

import sys

from shoal._cli import main

if __name__ == "__main__":
    sys.exit(main())
