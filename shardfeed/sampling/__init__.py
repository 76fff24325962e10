"""Which record comes when, and on which host? Order and shares, computed without reading."""
