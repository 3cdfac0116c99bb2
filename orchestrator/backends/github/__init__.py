"""The `github` backend: matrices from a plan, runners that run `lh-ci exec`, REST."""
