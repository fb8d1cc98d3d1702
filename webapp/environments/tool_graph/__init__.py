"""The graph of a version's tools: its judged edges, their corrections by people, and its drawing."""
