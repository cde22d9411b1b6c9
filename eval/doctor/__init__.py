"""One screen that says whether this machine is ready, and how to mend what is not."""
