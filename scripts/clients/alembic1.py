"""alembic1.py - Alembic 1: the operations of migrations on sharded tables, and what autogenerate finds afterwards"""

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations

from answers import SHARDED, URL, refused, step

engine = sa.create_engine(f"postgresql+psycopg://{URL}")
metadata = sa.MetaData()
sa.Table("country", metadata, sa.Column("code", sa.String(2), primary_key=True), sa.Column("name", sa.Text))
sa.Table("account", metadata, sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True), sa.Column("name", sa.Text, nullable=False),
         sa.Column("country_code", sa.ForeignKey("country.code", name="account_country")))
sa.Table("purchase", metadata, sa.Column("account_id", sa.ForeignKey("account.id", name="purchase_account", ondelete="CASCADE"), primary_key=True),
         sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True), sa.Column("total", sa.Numeric(12, 2), server_default="0"),
         sa.Column("state", sa.String(20), nullable=False), sa.Column("note", sa.Text, server_default="none", nullable=False),
         sa.UniqueConstraint("account_id", "note", name="purchase_note"), sa.Index("purchase_state", "state", "total"), sa.CheckConstraint("total >= 0", name="purchase_check"))
connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def without_foreign_keys(_object, _name, kind, _reflected, _compare_to):
    """The option include_object of env.py: foreign keys of shards are not seen on the coordinator."""
    return kind != "foreign_key_constraint"


def operations(**options):
    return Operations(MigrationContext.configure(connection, opts=options))


def differences(**options):
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True, "include_name": lambda name, kind, _: kind != "table" or name in metadata.tables, **options})
    return sorted(str(difference[0]) if isinstance(difference, tuple) else str([part[0] for part in difference]) for difference in compare_metadata(context, metadata))


def first():
    op = operations()
    op.create_table("country", sa.Column("code", sa.String(2), primary_key=True), sa.Column("name", sa.Text))
    op.create_table("account", sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True), sa.Column("name", sa.Text), sa.Column("country_code", sa.String(2)))
    op.create_table("purchase", sa.Column("account_id", sa.BigInteger, primary_key=True), sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True), sa.Column("total", sa.Numeric(12, 2), server_default="0"), sa.Column("status", sa.String(10)))
    op.create_foreign_key("account_country", "account", "country", ["country_code"], ["code"])
    op.create_foreign_key("purchase_account", "purchase", "account", ["account_id"], ["id"], ondelete="CASCADE")
    op.bulk_insert(sa.table("purchase", sa.column("account_id"), sa.column("status")), [])


def shard():
    op = operations()
    op.execute("SELECT shardfdw.create_reference_table('country')")
    op.execute("SELECT shardfdw.shard_tables('{account,purchase}', 'account_id', shards => 4)")


def later():
    op = operations()
    op.add_column("purchase", sa.Column("note", sa.Text, server_default="none", nullable=False))
    op.alter_column("purchase", "status", new_column_name="state", type_=sa.String(20), existing_type=sa.String(10), nullable=False)
    op.alter_column("account", "name", nullable=False)
    op.create_index("purchase_state", "purchase", ["state", "total"], postgresql_concurrently=True)
    op.create_check_constraint("purchase_check", "purchase", "total >= 0")
    op.create_unique_constraint("purchase_note", "purchase", ["account_id", "note"])
    op.add_column("purchase", sa.Column("extra", sa.Integer))
    op.create_index("purchase_extra", "purchase", ["extra"])
    op.drop_index("purchase_extra")
    op.drop_column("purchase", "extra")
    op.drop_constraint("account_country", "account")
    op.create_foreign_key("account_country", "account", "country", ["country_code"], ["code"])


def downgrade():
    op = operations()
    op.drop_constraint("purchase_note", "purchase")
    op.drop_constraint("purchase_account", "purchase")
    op.drop_index("purchase_state", postgresql_concurrently=True, table_name="purchase")
    op.drop_table("purchase")
    return sa.inspect(engine).has_table("purchase")


step("the first migration", first)
if SHARDED:
    shard()
step("a later migration", later)
step("autogenerate without foreign keys finds nothing", lambda: differences(include_object=without_foreign_keys))
if SHARDED:
    found = differences()
    print("ok - autogenerate adds the foreign keys of shards again" if found == ["add_fk", "add_fk"] else f"not ok - autogenerate: {found}", flush=True)
refused("a unique constraint without the shard key", "0A000", lambda: operations().create_unique_constraint("u", "purchase", ["note"]))
refused("a foreign key that is there", "42710", lambda: operations().create_foreign_key("again", "purchase", "account", ["account_id"], ["id"], ondelete="CASCADE"))
step("a transactional migration, rolled back", lambda: [connection.exec_driver_sql("BEGIN; ALTER TABLE purchase ADD COLUMN gone int; ROLLBACK") and None, len(sa.inspect(engine).get_columns("purchase"))])
step("downgrade", downgrade)
