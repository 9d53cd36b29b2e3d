"""The SFTP service of a host: its files, the requests for one call, and what its refusals mean."""
