"""Which steps has the Beam graph? One file per step; no other folder here imports Beam."""
