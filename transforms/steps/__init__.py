"""Which steps has the Beam graph? One file per step. The only folder here that imports Apache Beam."""
