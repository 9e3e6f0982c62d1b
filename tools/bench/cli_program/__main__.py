"""The program the bare CLI runs: declares what the file named by BENCH_PROGRAM holds, a pickled callable."""

import os
import pickle
from pathlib import Path

# The benchmark has written it itself, a moment ago.
pickle.loads(Path(os.environ["BENCH_PROGRAM"]).read_bytes())()  # noqa: S301
