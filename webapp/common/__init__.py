"""What all apps share: requests and replies, lists, forms, events, storage and errors."""
