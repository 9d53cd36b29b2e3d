"""Commands on a Windows host: PowerShell that holds them there, and the talk with it."""
