"""What people edit: read, checked against itself, and frozen."""
