"""The instruments: each has a test that plants a known effect and asks for it."""
