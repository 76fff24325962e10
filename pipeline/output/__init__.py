"""Can a dataset be made in this folder, and what does its claim say?"""
