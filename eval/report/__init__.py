"""The report: runs, tables and figures as one self-contained HTML file."""
