"""How does a graph run on Google Cloud Dataflow?"""
