"""`dmctl policy`: the rules over manifests, without a cluster."""
