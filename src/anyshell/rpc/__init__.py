"""An environment for programs in any language: JSON lines on stdin and stdout."""
