"""The best settings of a library's own Parquet writer for a user's rows, found by measuring.

`writers` says what each library lets its user choose, and writes the code; `search` measures each column
alone, puts whole files together and measures them, each in a fresh process (`worker`).
"""
