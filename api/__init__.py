"""The declared API: what a DecisionModel may say and what the platform answers in its status.

Frozen pydantic models of the custom resource (`decisionmodel`, `spec`, `status` and the Kubernetes types they embed),
the vocabulary of conditions, reasons and phases (`conditions`), the well-known keys (`keys`), and the
CustomResourceDefinition generated from the models (`crd`). It knows no cluster and no engine, and imports nothing of
the other packages.
"""
