"""The methods of the client, by subject."""
