"""How do the bytes of a file become the pixels and bytes that are stored, or a reject?"""
