"""The error of everything that loads a model."""


class ModelError(ValueError):
    """A model that cannot be loaded; the message is one line that says why and what to do."""
