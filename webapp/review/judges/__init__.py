"""Models that review as people do: hidden until a person has decided, and compared with people verdict by verdict."""
