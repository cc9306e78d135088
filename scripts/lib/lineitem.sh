# shellcheck shell=bash
# lineitem.sh - the table of the demo, rows like those of TPC-H for it, and the demo's queries
#
# Sourced, never run: by scripts/demo, and by the test of the Debian package.

# shellcheck disable=SC2034 # for the sourcing script
LINEITEM_COLUMNS='
	l_orderkey bigint NOT NULL,
	l_partkey bigint NOT NULL,
	l_suppkey bigint NOT NULL,
	l_linenumber integer NOT NULL,
	l_quantity numeric(15,2) NOT NULL,
	l_extendedprice numeric(15,2) NOT NULL,
	l_discount numeric(15,2) NOT NULL,
	l_tax numeric(15,2) NOT NULL,
	l_returnflag char(1) NOT NULL,
	l_linestatus char(1) NOT NULL,
	l_shipdate date NOT NULL,
	l_commitdate date NOT NULL,
	l_receiptdate date NOT NULL,
	l_shipinstruct char(25) NOT NULL,
	l_shipmode char(10) NOT NULL,
	l_comment varchar(44) NOT NULL'

# Prints statements for psql (-v scale=S) that write rows as CSV to its output: as many as TPC-H has. Numbers follow
# from the order's, so they are the same each time.
lineitem_rows_sql() {
	cat <<-'SQL'
		SELECT format($copy$
		COPY (
			SELECT o AS l_orderkey, r %% 200000 + 1 AS l_partkey, r %% 10007 + 1 AS l_suppkey, line AS l_linenumber,
				r %% 50 + 1 AS l_quantity, ((r %% 50 + 1) * (90000 + r %% 100000) / 100.0)::numeric(15,2) AS l_extendedprice,
				(r %% 11) / 100.0 AS l_discount, (r %% 9) / 100.0 AS l_tax,
				CASE WHEN r %% 4 < 2 THEN 'N' WHEN r %% 4 = 2 THEN 'R' ELSE 'A' END AS l_returnflag,
				CASE WHEN r %% 4 < 2 THEN 'O' ELSE 'F' END AS l_linestatus,
				date '1992-01-02' + r %% 2526 AS l_shipdate, date '1992-01-31' + r %% 2466 AS l_commitdate,
				date '1992-01-03' + r %% 2526 + r %% 30 AS l_receiptdate,
				(ARRAY['COLLECT COD', 'DELIVER IN PERSON', 'NONE', 'TAKE BACK RETURN'])[r %% 4 + 1] AS l_shipinstruct,
				(ARRAY['AIR', 'FOB', 'MAIL', 'RAIL', 'REG AIR', 'SHIP', 'TRUCK'])[r %% 7 + 1] AS l_shipmode,
				left(md5(r::text), r %% 20 + 10) AS l_comment
			FROM generate_series(1, %s) o, generate_series(1, 4) line, LATERAL (SELECT abs(hashint8(o * 7 + line))::int AS r) x
		) TO STDOUT (FORMAT csv, HEADER)$copy$, (1500000 * :scale)::int) \gexec
	SQL
}

# shellcheck disable=SC2034 # as above
TITLES=(
	"pricing summary (TPC-H query 1)"
	"by ship mode"
	"by month of shipping"
	"the ten suppliers with most revenue"
)
QUERIES=(
	"SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
  FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90 days'
 GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus"
	"SELECT l_shipmode, count(*), sum(l_quantity) AS quantity, min(l_shipdate), max(l_shipdate)
  FROM lineitem GROUP BY l_shipmode ORDER BY l_shipmode"
	"SELECT date_trunc('month', l_shipdate)::date AS month, count(*), avg(l_extendedprice) AS avg_price,
       bool_and(l_receiptdate > l_shipdate) AS all_received_later
  FROM lineitem WHERE l_shipdate >= date '1997-01-01' GROUP BY 1 HAVING count(*) > 100 ORDER BY 1"
	"SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*)
  FROM lineitem GROUP BY l_suppkey ORDER BY revenue DESC, l_suppkey LIMIT 10"
)
