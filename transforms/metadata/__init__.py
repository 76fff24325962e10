"""What does a metadata table say of an image?"""
