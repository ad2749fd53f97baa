"""The code of the measured process: `main` runs there, and the other modules are imported by it alone.

Whatever is imported here counts towards the memory limit of the sample.
"""
