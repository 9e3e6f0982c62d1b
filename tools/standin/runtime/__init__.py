"""A stand-in for the Ollaya runtime: the same command line, HTTP contract, store and pull client, without the models.

It answers from the words of a state instead of a neural network, so that every rule a client relies on can be shown,
and broken on purpose (see `switches`), on a machine that can run no model. Standard library only: it is the whole
content of a minimal image. The contract is spec section 10.1; each module names the part it keeps.

Start it as a program with ``python -m tools.standin.runtime``, or inside a test with `daemon.Daemon`. The package uses
relative imports only, so it may be installed under any name.
"""
