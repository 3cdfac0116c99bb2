"""Other people's machines: who may run what, and whose results are believed."""
