"""What does the program ``shardfeed`` do with arguments, signals and its outputs?"""
