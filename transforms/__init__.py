"""How do images become a dataset? The job's work as plain functions, in the order in which data meets them."""
