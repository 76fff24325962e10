"""How far is a build, seen from its files alone?"""
