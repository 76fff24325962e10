"""Which kinds of files are decoded, by what, and where do their headers say how large they are?"""
