"""The instruments: one file each, and a test for each that plants a known effect and asks for it."""
