"""The commands of the program. No command imports another: code that two commands need is outside of this package."""
