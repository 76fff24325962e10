"""How far is a run, why did it fail, and do all its workers have the same versions?"""
