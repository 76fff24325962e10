"""How does a job run on an engine of Beam's, and what does its end mean? All that knows Beam's insides, but Dataflow's."""
