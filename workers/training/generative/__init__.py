"""Fine-tuning of generative models."""
