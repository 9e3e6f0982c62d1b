"""Reading manifests from files, directories and standard input, each value with the line it came from."""
