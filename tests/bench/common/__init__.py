"""Shared parts of the benchmarks. Importing this package makes tests/support importable, too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
