"""Many runs as columns: what a year of results is read from in seconds."""
