"""Which decoded pixels are taken, and how are they turned, resized and measured?"""
