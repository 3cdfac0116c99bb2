"""Files that services read: made from templates and the matrix, checked in, and compared in CI."""
