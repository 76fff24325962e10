"""What is in a dataset? A summary in text, and a sheet of images."""
