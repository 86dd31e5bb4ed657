"""verl as a backend: its trainer and engine, our selection and loss."""
