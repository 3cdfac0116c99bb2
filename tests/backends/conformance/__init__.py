"""What every backend promises, held against all of them."""
