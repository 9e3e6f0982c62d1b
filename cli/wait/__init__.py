"""`dmctl wait`: wait until a DecisionModel is what its spec asks for."""
