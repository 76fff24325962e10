"""How does a killed training go on where it was? ``fit``."""
