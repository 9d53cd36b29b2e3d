"""The files of a host: by SFTP, or by commands of the host's shell where the host has no SFTP."""
