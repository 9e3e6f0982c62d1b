"""Stand-ins that keep the contract of the runtime and of its model registry, for tests and demonstrations."""
