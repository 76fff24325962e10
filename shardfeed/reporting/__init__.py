"""What does a dataset look like, and what is wrong with it, as one page of HTML?"""
