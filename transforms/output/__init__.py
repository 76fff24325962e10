"""Who may build in an output, and what lies in it until the dataset is published?"""
