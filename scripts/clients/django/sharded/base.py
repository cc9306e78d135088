"""base.py - Django's backend for PostgreSQL, whose parallel tests clone the nodes' databases along"""

from django.db.backends.postgresql import base, creation


class DatabaseCreation(creation.DatabaseCreation):
    def _clone_test_db(self, suffix, verbosity, keepdb=False):
        super()._clone_test_db(suffix, verbosity, keepdb)
        settings = {**self.connection.settings_dict, **self.get_test_db_clone_settings(suffix)}
        clone = self.connection.__class__(settings, alias=self.connection.alias)
        with clone.cursor() as cursor:
            cursor.execute("SELECT shardfdw.clone_node_databases()")
        clone.close()


class DatabaseWrapper(base.DatabaseWrapper):
    creation_class = DatabaseCreation
