"""Which device, and which host of how many? And the arguments for Keras that follow from it."""
