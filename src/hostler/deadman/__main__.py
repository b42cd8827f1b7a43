"""`python -I -S windows/<id>/program windows/<id> [now]`: be the deadman of that window."""

from __future__ import annotations

import sys

from hostler.deadman.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], at_once=sys.argv[2:] == ["now"]))
