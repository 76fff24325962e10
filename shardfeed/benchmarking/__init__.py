"""Is reading fast enough, and what limits it?"""
