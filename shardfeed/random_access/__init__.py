"""How is one record read by its number? ``records``: a split as a sequence, for any loader."""
