"""How does a job run on an engine of Beam's, and what does its end mean?

What knows Beam's insides lies here; what knows Dataflow's is in ``pipeline.dataflow`` and its neighbours.
"""
