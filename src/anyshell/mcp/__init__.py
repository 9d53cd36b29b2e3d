"""``anyshell mcp``: the tools for programs that speak the Model Context Protocol. It needs the extra ``mcp``."""
