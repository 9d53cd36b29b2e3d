"""The files of a host: by SFTP, or by its shell where it has no SFTP."""
