"""What imports and batches stored beside human work, and its adoption."""
