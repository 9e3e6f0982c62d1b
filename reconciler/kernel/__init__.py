"""The controller kernel: everything a level-triggered controller needs that is not about its own kind.

List/watch reflectors feed a store, the store's changes queue keys, workers reconcile one key at a time, a Lease
decides which process may do so, and slow work runs in the background and queues its key again when it ends. The
kernel knows Kubernetes and knows no DecisionModel; it imports no other package of this project (spec sections 1 and 6
of the controller study).
"""
