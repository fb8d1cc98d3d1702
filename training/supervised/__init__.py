"""Parts of SFT: samples that are tokenised when they are learnt, and the trainer that learns from them."""
