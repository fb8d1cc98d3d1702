"""Training on this installation: the demo, the installation of torch, the worker beside the site."""
