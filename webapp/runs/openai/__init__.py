"""OpenAI's fine-tuning resources: what is sent and answered, and how it maps to training jobs."""
