"""What a run found, told to people and to machines."""
