"""``anyshell mcp``: the tools for programs that speak the Model Context Protocol. Needs the extra ``mcp``."""
