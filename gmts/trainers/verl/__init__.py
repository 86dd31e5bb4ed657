"""The verl backend: everything that names verl, Ray or Hydra; our selection and loss in it."""
