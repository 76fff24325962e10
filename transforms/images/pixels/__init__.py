"""What happens to the decoded pixels: which are taken, how they are turned and resized, and what is measured?"""
