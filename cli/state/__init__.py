"""`dmctl state`: what a state backend holds, whether it is sound, and its repair."""
