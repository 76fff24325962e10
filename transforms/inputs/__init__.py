"""Which images are there, and what are their classes and splits?"""
