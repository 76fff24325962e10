"""Which images of a dataset are the same picture?"""
