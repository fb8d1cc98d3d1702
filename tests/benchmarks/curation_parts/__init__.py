"""What the benchmark of curation is made of: the people who click, and the rows that they find."""
