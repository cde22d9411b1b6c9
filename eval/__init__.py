"""What is done with memory systems: run, judge, score, tabulate."""
