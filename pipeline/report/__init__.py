"""What does a build show while it runs and when it has ended?"""
