"""`python -m tools.language_host`: what the executable beside this file starts."""

from tools.language_host.server import serve

if __name__ == "__main__":
    serve()
