"""Can a dataset be made in this folder, and which rows of the table have changed since?"""
