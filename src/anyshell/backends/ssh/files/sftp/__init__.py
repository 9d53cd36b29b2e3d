"""The SFTP service of a host: its files, the requests for one call, and the meaning of its refusals."""
