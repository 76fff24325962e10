"""How do images become a dataset? Plain functions, in the order in which data meets them."""
