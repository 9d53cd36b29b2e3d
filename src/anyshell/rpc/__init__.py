"""``anyshell rpc``: an environment for programs in any language, by JSON lines on stdin and stdout."""
