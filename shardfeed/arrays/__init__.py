"""How does a trainer read without TensorFlow? ``array_batches``: NumPy batches."""
