"""What would a build give, take and cost?"""
