"""Parts of SFT: samples that are tokenised lazily, and the trainer that uses them."""
