"""sqlalchemy2.py - SQLAlchemy 2 on sharded tables: create_all, reflection, ORM units of work, upserts, bulk statements"""

import datetime
import decimal
import os

import sqlalchemy as sa
from sqlalchemy import event, orm
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert

from tap import attempt, equal, finish, ok, psql


class Base(orm.DeclarativeBase):
    pass


class Country(Base):
    __tablename__ = "country"
    code: orm.Mapped[str] = orm.mapped_column(sa.String(2), primary_key=True)
    name: orm.Mapped[str]


class Customer(Base):
    __tablename__ = "customer"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(50))
    country_code: orm.Mapped[str | None] = orm.mapped_column(sa.ForeignKey("country.code"))
    created: orm.Mapped[datetime.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    tags: orm.Mapped[list[str] | None] = orm.mapped_column(ARRAY(sa.String))
    doc: orm.Mapped[dict | None] = orm.mapped_column(JSONB)
    country: orm.Mapped[Country | None] = orm.relationship()
    purchases: orm.Mapped[list["Purchase"]] = orm.relationship(primaryjoin="Customer.id == foreign(Purchase.customer_id)", back_populates="customer", cascade="all, delete-orphan")


class Purchase(Base):
    __tablename__ = "purchase"
    __table_args__ = (sa.CheckConstraint("total >= 0", name="purchase_total_check"), sa.Index("purchase_note", "note"))
    customer_id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, primary_key=True)
    number: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    total: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(12, 2), default=0)
    note: orm.Mapped[str | None]
    twice: orm.Mapped[decimal.Decimal | None] = orm.mapped_column(sa.Numeric, sa.Computed("total * 2", persisted=True))
    version: orm.Mapped[int] = orm.mapped_column(default=1)
    customer: orm.Mapped[Customer] = orm.relationship(primaryjoin="foreign(Purchase.customer_id) == Customer.id", back_populates="purchases")
    __mapper_args__ = {"version_id_col": version}


# Tables are sharded by DDL events, as soon as they are made.
event.listen(Country.__table__, "after_create", sa.DDL("SELECT shardfdw.create_reference_table('country')"))
event.listen(Customer.__table__, "after_create", sa.DDL("SELECT shardfdw.shard_table('customer', 'id', shards => 4)"))
event.listen(Purchase.__table__, "after_create", sa.DDL("SELECT shardfdw.shard_table('purchase', 'customer_id', colocate_with => 'customer')"))
Purchase.__table__.add_is_dependent_on(Customer.__table__)

engine = sa.create_engine(sa.URL.create("postgresql+psycopg", username=os.environ["PGUSER"], database=os.environ["PGDATABASE"],
                                        query={"host": os.environ["PGHOST"], "port": os.environ["PGPORT"]}))


def create():
    Base.metadata.create_all(engine)
    equal(psql("SELECT string_agg(relation::text, ' ' ORDER BY relation::text) FROM shardfdw.tables WHERE relation IN ('customer'::regclass, 'purchase'::regclass)"), "customer purchase", "create_all with shard_table in DDL events")
    Base.metadata.create_all(engine)
    ok(True, "create_all again finds the tables")


def reflection():
    inspector = sa.inspect(engine)
    equal(inspector.get_pk_constraint("purchase")["constrained_columns"], ["customer_id", "number"], "reflection: primary key")
    equal(inspector.get_pk_constraint("customer")["name"], "customer_pkey", "reflection: its name")
    ok({"customer", "purchase", "country"} <= set(inspector.get_table_names()), "reflection: tables", inspector.get_table_names())
    equal([column["name"] for column in inspector.get_columns("purchase")], ["customer_id", "number", "total", "note", "twice", "version"], "reflection: columns")
    ok(inspector.get_columns("customer")[0].get("identity"), "reflection: identity", inspector.get_columns("customer")[0])
    ok(inspector.get_columns("purchase")[4].get("computed"), "reflection: generated column", inspector.get_columns("purchase")[4])
    equal([check["name"] for check in inspector.get_check_constraints("purchase")], ["purchase_total_check"], "reflection: CHECK")
    ok("purchase_note" in [index["name"] for index in inspector.get_indexes("purchase")], "reflection: index", inspector.get_indexes("purchase"))
    reflected = sa.Table("purchase", sa.MetaData(), autoload_with=engine)
    equal([column.name for column in reflected.primary_key], ["customer_id", "number"], "autoload_with")

    class Automatic(orm.DeclarativeBase):
        metadata = sa.MetaData()

    automatic = type("AutomaticPurchase", (Automatic,), {"__table__": sa.Table("purchase", Automatic.metadata, autoload_with=engine)})
    equal([column.name for column in sa.inspect(automatic).primary_key], ["customer_id", "number"], "a mapped class from reflection")


def units_of_work():
    with orm.Session(engine) as session, session.begin():
        session.add_all([Country(code="DE", name="Germany"), Country(code="NZ", name="New Zealand")])
        session.add_all([Customer(name=f"c{i}", country_code="DE" if i % 2 else "NZ", tags=["x", str(i)], doc={"i": i}) for i in range(50)])
    with orm.Session(engine) as session:
        customers = session.scalars(sa.select(Customer).order_by(Customer.name)).all()
        equal(len({customer.id for customer in customers}), 50, "insertmanyvalues: 50 keys from an identity column")
        equal(sorted((customer.name, customer.doc["i"]) for customer in customers), sorted((f"c{i}", i) for i in range(50)), "insertmanyvalues: the rows")
        ok(all(customer.created for customer in customers), "server defaults")
        one = customers[3]
        one.purchases = [Purchase(number=n, total=decimal.Decimal(n) / 2, note=f"p{n}") for n in range(1, 4)]
        session.commit()
        equal([purchase.twice for purchase in sorted(one.purchases, key=lambda purchase: purchase.number)], [decimal.Decimal(n) for n in range(1, 4)], "generated columns are fetched")
        one.purchases[0].total = 7
        one.name = "changed"
        session.commit()
        equal(one.purchases[0].version, 2, "version_id_col: UPDATE counts one row")
        joined = session.execute(sa.select(Customer.name, Country.name, sa.func.sum(Purchase.total)).join(Customer.country).join(Customer.purchases).group_by(Customer.id, Country.name)).all()
        equal([(row[0], row[2]) for row in joined], [("changed", decimal.Decimal("9.50"))], "joins, GROUP BY of the primary key")
        loaded = session.scalars(sa.select(Customer).options(orm.selectinload(Customer.purchases), orm.joinedload(Customer.country)).where(Customer.id.in_([c.id for c in customers]))).unique().all()
        equal(sum(len(customer.purchases) for customer in loaded), 3, "selectinload, joinedload")
        with orm.Session(engine) as other:
            stale = other.get(Purchase, (one.id, 2))
            session.get(Purchase, (one.id, 2)).note = "first"
            session.commit()
            stale.note = "second"
            try:
                other.commit()
                ok(False, "a stale version", "it was written")
            except orm.exc.StaleDataError:
                ok(True, "a stale version is found")
        session.delete(one)
        session.commit()
        equal(session.scalar(sa.select(sa.func.count()).select_from(Purchase)), 0, "delete with its children")
        row = session.scalars(sa.select(Customer).where(Customer.name == "c7").with_for_update()).one()
        row.tags = row.tags + ["locked"]
        session.commit()
        equal(session.get(Customer, row.id).tags, ["x", "7", "locked"], "with_for_update")


def statements():
    with engine.connect().execution_options(preserve_rowcount=True) as conn, conn.begin():
        table = Purchase.__table__
        rows = conn.execute(sa.insert(table).returning(table.c.customer_id, table.c.number, table.c.twice, sort_by_parameter_order=True), [{"customer_id": i, "number": 1, "total": i} for i in range(1, 41)]).all()
        equal([(row.customer_id, row.twice) for row in rows], [(i, decimal.Decimal(2 * i)) for i in range(1, 41)], "insert returning, in order")
        upsert = insert(table).values([{"customer_id": i, "number": 1, "total": 1000 + i} for i in range(36, 46)])
        upsert = upsert.on_conflict_do_update(index_elements=["customer_id", "number"], set_={"total": upsert.excluded.total, "version": table.c.version + 1}, where=table.c.total < 5000).returning(table.c.customer_id, table.c.version)
        equal(sorted(map(tuple, conn.execute(upsert))), [(i, 2 if i <= 40 else 1) for i in range(36, 46)], "on_conflict_do_update with several rows")
        upsert = insert(table).values(customer_id=1, number=1, total=3).on_conflict_do_update(constraint="purchase_pkey", set_={"total": 99}).returning(table.c.total)
        equal(conn.execute(upsert).scalar(), decimal.Decimal(99), "on_conflict_do_update of a constraint")
        equal(conn.execute(insert(table).values(customer_id=1, number=1).on_conflict_do_nothing()).rowcount, 0, "on_conflict_do_nothing")
        equal(conn.execute(insert(table).on_conflict_do_nothing(index_elements=["customer_id", "number"]), [{"customer_id": 1, "number": n} for n in range(1, 5)]).rowcount, 3, "on_conflict_do_nothing, several")
        equal(sorted(conn.execute(sa.update(table).where(table.c.total >= 1040).values(note="big").returning(table.c.customer_id)).scalars()), list(range(40, 46)), "update returning")
        equal(sorted(conn.execute(sa.delete(table).where(table.c.note == "big").returning(table.c.customer_id, table.c.note)).scalars()), list(range(40, 46)), "delete returning")
        equal(conn.execute(sa.update(table).where(table.c.customer_id == sa.bindparam("c"), table.c.number == 1).values(note=sa.bindparam("n")), [{"c": i, "n": f"b{i}"} for i in range(1, 11)]).rowcount, 10, "executemany of UPDATE")
        equal(conn.execute(sa.update(table).where(table.c.customer_id == Customer.id, Customer.name == "c1").values(note=Customer.name)).rowcount in (0, 1), True, "UPDATE ... FROM")
        copied = conn.execute(sa.insert(table).from_select(["customer_id", "number", "total"], sa.select(table.c.customer_id, table.c.number + 100, table.c.total).where(table.c.number == 1)))
        equal(copied.rowcount, 39, "INSERT ... SELECT")
        cte = sa.delete(table).where(table.c.number > 100).returning(table.c.customer_id).cte("gone")
        equal(conn.execute(sa.select(sa.func.count()).select_from(cte)).scalar(), 39, "a DELETE in WITH")
    with orm.Session(engine) as session, session.begin():
        session.execute(sa.insert(Purchase), [{"customer_id": 500 + i, "number": 1, "total": 1} for i in range(2500)])
        session.bulk_update_mappings(Purchase, [{"customer_id": 500 + i, "number": 1, "note": "bulk", "version": 1} for i in range(100)])
        session.execute(sa.update(Purchase).where(Purchase.customer_id >= 3000 - 500).values(total=Purchase.total + 1), execution_options={"synchronize_session": "fetch"})
    with orm.Session(engine) as session:
        equal(session.execute(sa.select(sa.func.count(), sa.func.sum(Purchase.total)).where(Purchase.customer_id >= 500)).one(), (2500, decimal.Decimal(3000)), "bulk insert and update")
        equal(sum(len(part) for part in session.scalars(sa.select(Purchase.customer_id).where(Purchase.customer_id >= 500).execution_options(yield_per=100)).partitions()), 2500, "yield_per")
        equal(session.scalars(sa.select(Purchase.customer_id).where(Purchase.customer_id >= 500).order_by(Purchase.customer_id).limit(3).offset(10)).all(), [510, 511, 512], "limit and offset")


def transactions():
    with orm.Session(engine) as session:
        session.add(Purchase(customer_id=1, number=50, total=1))
        session.flush()
        try:
            with session.begin_nested():
                session.execute(sa.insert(Purchase).values(customer_id=1, number=50))
            ok(False, "a savepoint around an error", "it did not fail")
        except sa.exc.IntegrityError as error:
            equal(error.orig.sqlstate, "23505", "IntegrityError within a savepoint")
        try:
            with session.begin_nested():
                session.execute(sa.insert(Purchase).values(customer_id=2, number=51, total=-1))
        except sa.exc.IntegrityError as error:
            equal((error.orig.sqlstate, error.orig.diag.constraint_name), ("23514", "purchase_total_check"), "CHECK of a shard")
        with session.begin_nested() as nested:
            session.add(Purchase(customer_id=3, number=52, total=1))
            session.flush()
            nested.rollback()
        session.add(Purchase(customer_id=4, number=53, total=1))
        session.commit()
        equal(session.execute(sa.select(Purchase.customer_id).where(Purchase.number.between(50, 59)).order_by(Purchase.customer_id)).scalars().all(), [1, 4], "savepoints")
        try:
            session.execute(sa.insert(Customer).values(name="nowhere", country_code="??"))
            session.commit()
            ok(False, "a foreign key", "it did not fail")
        except sa.exc.IntegrityError as error:
            equal(error.orig.sqlstate, "23503", "foreign key to a reference table")
            session.rollback()
    with orm.Session(engine, twophase=True) as session:
        session.add(Purchase(customer_id=5, number=60, total=1))
        try:
            session.commit()
            ok(False, "two-phase commit of the session", "it was not refused")
        except sa.exc.DBAPIError as error:
            # SQLAlchemy then rolls back what has not been prepared, which fails, too.
            while error.orig.sqlstate == "42704" and isinstance(error.__context__, sa.exc.DBAPIError):
                error = error.__context__
            equal(error.orig.sqlstate, "0A000", "two-phase commit of the session is refused clearly")
            session.invalidate()
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        with engine.connect().execution_options(isolation_level=level) as conn:
            conn.execute(sa.update(Purchase).where(Purchase.customer_id == 1).values(note=level))
            conn.commit()
            ok(conn.execute(sa.select(Purchase.note).where(Purchase.customer_id == 1)).scalars().first() == level, level)


def drop():
    Base.metadata.drop_all(engine)
    equal(psql("SELECT count(*) FROM pg_class WHERE relname IN ('customer', 'purchase', 'country')"), "0", "drop_all")
    equal(psql("SELECT DISTINCT result FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relname ~ '^(customer|purchase|country)'$$)"), "0", "drop_all: nothing is left on nodes")
    Base.metadata.create_all(engine)
    Base.metadata.drop_all(engine)
    ok(True, "create_all and drop_all once more")


for part in (create, reflection, units_of_work, statements, transactions, drop):
    attempt("SQLAlchemy: " + part.__name__, part)
engine.dispose()
finish()
