"""How do finished parts become a published dataset?"""
