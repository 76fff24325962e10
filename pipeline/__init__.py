"""How does one run go? Which driver, engine and flags it has, and what it shows."""
