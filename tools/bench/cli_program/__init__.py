"""The Pulumi project of the bare CLI."""
