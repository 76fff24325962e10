"""How does a graph run on an engine of Apache Beam? All that knows Beam's insides is here."""
