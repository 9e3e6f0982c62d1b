"""A real Kubernetes on this machine, without an account, a download of ready programs, or anything left behind.

``python -m tools.cluster`` is the command line, `tools.cluster.clusters` the interface for programs: `up` starts a
cluster of one node, and several can run side by side.

Everything of a cluster lives in namespaces that belong to one process (`tools.cluster.node`) and in the directory
``.local/<name>/``. A cluster whose processes were killed comes back with its objects, volumes and images at the next
`up`; `Cluster.down` ends it and forgets its objects and volumes.

Nothing is imported here: the processes inside the cluster are modules of this package and start without the clients
and cryptography that the tools around them need.
"""
