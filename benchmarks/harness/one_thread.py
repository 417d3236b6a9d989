"""Import this first: one thread per process, here and in child processes."""

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # read by torch, numpy and numba when they are imported
