"""`dmctl gate`: what a statistical gate needs, what it said last, and whether that can be reproduced."""
