"""People and machines at work on the same objects: what people made stays current."""
