"""`python -m dumbwaiter`: the command, in this package."""

import sys

from ._native import main


def _run() -> None:
    sys.exit(main(["dumbwaiter", *sys.argv[1:]]))


if __name__ == "__main__":
    _run()
