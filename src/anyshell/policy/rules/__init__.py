"""What may run: rules on parsed commands."""
