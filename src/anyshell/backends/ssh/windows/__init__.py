"""Commands on a Windows host: the PowerShell that holds them there, and the protocol to talk to it."""
