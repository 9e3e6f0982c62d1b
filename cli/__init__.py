"""`dmctl`: what people ask from a terminal or a pipeline. On top of everything; nothing imports it."""
