"""The cases of this folder need a process with a pretended GPU, which `test_pretended_gpu.py` starts."""

from __future__ import annotations

import sys

collect_ignore_glob = [] if "pretended_gpu" in sys.modules else ["cases_*.py", "pretended_gpu.py"]
