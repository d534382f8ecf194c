"""The cascade (Tabi, sections 4 and 5): answer from the tables where that is safe, otherwise compute."""
