"""Speed, measured side by side in one run: rollouts by the platform and by hand, stack operations and the bare CLI."""
