"""The code of the measured process: `main` runs there, and only `main` imports the other modules.

Whatever is imported here counts towards the memory limit of the sample.
"""
