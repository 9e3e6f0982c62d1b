"""The platform around the models: the reconciler, its rights, and what watches it.

`manifests` renders everything as plain Kubernetes objects; `component` declares them to the Pulumi engine.
"""
