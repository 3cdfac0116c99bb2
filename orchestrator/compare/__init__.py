"""Numbers against goldens. Needs NumPy alone, so that it runs inside every stack."""
