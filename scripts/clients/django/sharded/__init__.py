"""sharded - the database backend of docs/testing.md: copies of test databases get databases of their own on the nodes"""
