"""``python -m conformance``."""

import sys

from .command_line import main

sys.exit(main())
