"""How does a trainer read with TensorFlow? ``load``: a ``tf.data.Dataset``."""
