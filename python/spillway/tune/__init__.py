"""The best settings of a library's own Parquet writer for a user's rows, found by measuring.

`writers` lists the settings of each library, and writes the code; `search` measures each column separately,
combines settings for whole files and measures these, each in a fresh process (`worker`).
"""
