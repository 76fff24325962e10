"""How does a part's list of references become a finished part file?"""
