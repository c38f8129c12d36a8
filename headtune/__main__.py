"""``python -m headtune``."""

import sys

from headtune.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
