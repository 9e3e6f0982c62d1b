"""The pack's entry: serves until the engine ends it, so nothing but the engine should run it."""

import sys
from pathlib import Path

# The engine runs the pack's directory as a program, from where the packages beside it are not found.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policy.pack import serve

if __name__ == "__main__":
    serve()
