"""What a machine says about its GPUs from outside: kernel log, vendor's tool, sysfs."""
