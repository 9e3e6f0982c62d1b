"""The Python language host of a locally built Pulumi: runs local programs for `pulumi up`. Never shipped."""
