"""Which flags have ``build``, ``plan`` and ``status``?"""
