"""A runner whose crash points are armed by its environment."""

import os

from takeup.engine.runner.__main__ import main
from takeup.testing import crash

if __name__ == "__main__":
    crash.arm_from_environment(os.environ)
    main()
