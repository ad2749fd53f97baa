"""``spillway pipeline``: rows made, written, validated and summarised on Spark.

Rows are made on executors, each partition a range of them, and written there by the native writer. Nothing of
them passes through the driver: it has the checksums of each partition, commits once, and has Spark read
everything back.
"""
