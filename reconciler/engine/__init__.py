"""What is particular to Ollaya: model names, registry, images, the prefetch script, workloads and the runtime's API.

Decisions are pure functions of frozen values; only `registry` and `runtime` do I/O. Nothing here knows Kubernetes'
API or the rollout.
"""
