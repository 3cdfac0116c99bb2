"""Bundles that should not be taken, by name, with what each is to be refused for."""
