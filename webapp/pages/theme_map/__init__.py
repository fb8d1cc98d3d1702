"""The theme map: the placed themes, their places, and their drawing."""
