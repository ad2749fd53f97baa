"""The parts of a report: summaries of cells, tables, figures, Markdown, and the line that shows progress."""
