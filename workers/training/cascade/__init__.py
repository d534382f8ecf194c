"""The cascade of a model, fitted on its dev split: calibration, dispatcher, ensemble, and what they cost."""
