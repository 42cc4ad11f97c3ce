"""Pure: what is known about a job, the rules, and the verdict they give. No I/O, no clock."""
