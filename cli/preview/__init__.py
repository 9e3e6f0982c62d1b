"""`dmctl preview`: what would happen if manifests were applied. Reads, and writes nothing anywhere."""
