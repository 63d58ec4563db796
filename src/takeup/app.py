"""The composition root: settings in, running parts out."""
