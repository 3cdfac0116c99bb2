"""Who runs a plan's jobs: this machine, or a CI service's agents."""
