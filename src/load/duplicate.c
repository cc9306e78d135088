/*
 * duplicate.c
 *	  ON_DUPLICATE: loads rows whose unique key may already be in the table.
 *
 *	 COPY --> staging table --(DO block, row by row)--> shard
 *
 * A chunk is loaded this way if COPY has failed with a duplicate (copy_stream.h).  Chunks without duplicates are
 * copied directly, with the same result.  The DO block works row by row, so that the result follows the order of the
 * input, independent of the boundaries of the chunks:
 *
 *	 keep_old	INSERT ... ON CONFLICT DO NOTHING; a row that is not inserted is rejected.
 *	 keep_new	the same, then UPDATE of the row with the same key, for any unique
 *				index.  If a row has the keys of two rows, the second key raises an error.
 *
 * The staging table is unlogged, not temporary: a transaction that has used temporary tables cannot be prepared.  The
 * transaction of the load creates and drops the staging table.  The staging table has no constraints, so errors about
 * constraints name those of the shard.
 *
 * The DO block returns its result in two settings of the node's transaction.  Their prefix must not be that of a
 * library on the node.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "libpq-fe.h"
#include "load/duplicate.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "remote/run/command.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#define ORDINAL "shardfdw_ordinal"	/* column of the staging table */
#define REFUSED "shardfdw_load.refused"
#define REPLACED "shardfdw_load.replaced"

/* Columns of a node's answer. */
enum
{
	ANSWER_SHARD,				/* shardno */
	ANSWER_KIND,				/* AnswerKind */
	ANSWER_NAME,				/* quoted schema, column, or index */
	ANSWER_FIRST,				/* missing requirement, type, or problem */
	ANSWER_SECOND,				/* -, default, or column of the index */
	ANSWER_THIRD				/* -, attidentity, or condition on that column */
};

typedef enum AnswerKind
{
	KIND_TABLE,
	KIND_COLUMN,
	KIND_INDEX					/* one row for each of its columns */
} AnswerKind;

/* A column that COPY fills, on the node. */
typedef struct DuplicateColumn
{
	const char *name;			/* not quoted */
	const char *type;
	const char *dflt;
	bool		always_identity;
} DuplicateColumn;

typedef struct DuplicateShard
{
	const char *schema;			/* quoted; NULL: the node has no such table */
	int			ncolumns;
	DuplicateColumn *columns;	/* in the order of COPY */
	bool		any_index;
	const char *last_index;		/* the index whose columns are being read */
	StringInfoData condition;	/* SQL: row s and row t have the same key in some index (keep_new) */
} DuplicateShard;

struct ShardDuplicates
{
	MemoryContext cxt;
	const ShardMap *map;
	ShardCopyDuplicate how;
	DuplicateShard *shards;
};

/* ---------- queries to the nodes ---------- */

/* The query for columns and unique indexes of a node's shards. */
static char *
build_question(const ShardMap *map, int nodeno)
{
	StringInfoData sql;
	bool		first = true;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "WITH q(n, name) AS (VALUES ");
	for (int i = 0; i < map->nshards; i++)
	{
		if (map->shards[i].nodeno != nodeno)
			continue;
		appendStringInfo(&sql, "%s(%d, %s)", first ? "" : ", ", i,
						 quote_literal_cstr(map->shards[i].relation));
		first = false;
	}
	appendStringInfoString(&sql,
						   "), t AS (SELECT q.n, c.oid, s.oid AS nspoid, s.nspname FROM q"
						   " JOIN pg_class c ON c.oid = to_regclass(q.name)"
						   " JOIN pg_namespace s ON s.oid = c.relnamespace)");
	appendStringInfo(&sql,
					 " SELECT n, %d AS kind, quote_ident(nspname) AS name,"
					 " CASE WHEN NOT has_schema_privilege(nspoid, 'CREATE')"
					 " THEN format('privilege CREATE on schema %%I', nspname)"
					 " WHEN NOT EXISTS (SELECT FROM pg_language l WHERE l.lanname = 'plpgsql'"
					 " AND has_language_privilege(l.oid, 'USAGE')) THEN 'language plpgsql' END AS first,"
					 " NULL::text AS second, NULL::text AS third, 0 AS place FROM t",
					 KIND_TABLE);
	appendStringInfo(&sql,
					 " UNION ALL SELECT n, %d, a.attname::text, format_type(a.atttypid, a.atttypmod) ||"
					 " CASE WHEN a.attcollation <> y.typcollation THEN"
					 " (SELECT format(' COLLATE %%I.%%I', s.nspname, o.collname) FROM pg_collation o"
					 " JOIN pg_namespace s ON s.oid = o.collnamespace WHERE o.oid = a.attcollation) ELSE '' END,"
					 " pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, a.attnum::int"
					 " FROM t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped"
					 " JOIN pg_type y ON y.oid = a.atttypid"
					 " LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum AND a.attgenerated = ''",
					 KIND_COLUMN);

	/*
	 * Uses the index's equality: that of its operator class and collation.  An index on an expression has no
	 * attribute.
	 */
	appendStringInfo(&sql,
					 " UNION ALL SELECT n, %d, c.relname::text,"
					 " CASE WHEN NOT i.indimmediate THEN 'deferrable' WHEN i.indisexclusion THEN 'exclusion'"
					 " WHEN i.indpred IS NOT NULL THEN 'partial' WHEN i.indexprs IS NOT NULL THEN 'expression' END,"
					 " a.attname::text,"
					 " CASE WHEN a.attname IS NOT NULL AND o.oprname IS NOT NULL THEN"
					 " format(CASE WHEN i.indnullsnotdistinct AND NOT a.attnotnull THEN '(%%1$s OR (t.%%2$I IS NULL AND s.%%2$I IS NULL))' ELSE '%%1$s' END,"
					 " format('t.%%1$I OPERATOR(%%2$I.%%3$s) s.%%1$I%%4$s', a.attname, os.nspname, o.oprname,"
					 " CASE WHEN i.indcollation[k] <> a.attcollation THEN"
					 " (SELECT format(' COLLATE %%I.%%I', cs.nspname, l.collname) FROM pg_collation l"
					 " JOIN pg_namespace cs ON cs.oid = l.collnamespace WHERE l.oid = i.indcollation[k]) END),"
					 " a.attname) END, k"
					 " FROM t JOIN pg_index i ON i.indrelid = t.oid AND i.indislive AND (i.indisunique OR i.indisexclusion)"
					 " JOIN pg_class c ON c.oid = i.indexrelid"
					 " CROSS JOIN LATERAL generate_series(0, i.indnkeyatts - 1) k"
					 " LEFT JOIN (pg_opclass p JOIN pg_amop m ON m.amopfamily = p.opcfamily AND m.amopstrategy = 3"
					 " AND m.amoplefttype = p.opcintype AND m.amoprighttype = p.opcintype"
					 " JOIN pg_operator o ON o.oid = m.amopopr JOIN pg_namespace os ON os.oid = o.oprnamespace)"
					 " ON p.oid = i.indclass[k]"
					 " LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[k]"
					 " ORDER BY n, kind, name, place",
					 KIND_INDEX);
	return sql.data;
}

static char *
answer_text(MemoryContext cxt, PGresult *res, int row, int col)
{
	return PQgetisnull(res, row, col) ? NULL : MemoryContextStrdup(cxt, PQgetvalue(res, row, col));
}

/* The same for what is never null in a node's catalogs: raises an error for null. */
static char *
need_text(MemoryContext cxt, PGresult *res, int row, int col)
{
	if (PQgetisnull(res, row, col))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("unexpected data from the node: a definition lacks something")));
	return answer_text(cxt, res, row, col);
}

static DuplicateColumn *
find_column(const DuplicateShard *shard, const char *name)
{
	for (int i = 0; i < shard->ncolumns; i++)
	{
		if (strcmp(shard->columns[i].name, name) == 0)
			return &shard->columns[i];
	}
	return NULL;
}

/* Raises the error that the load cannot work with an index. */
static void
refuse_index(const ShardDuplicates *duplicates, int shardno, const char *index,
			 const char *detail, bool keep_old_works)
{
	const Shard *shard = &duplicates->map->shards[shardno];

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("ON_DUPLICATE %s cannot be used with index \"%s\" of table %s on node \"%s\"",
					duplicates->how == SHARD_DUPLICATE_KEEP_OLD ? "KEEP_OLD" : "KEEP_NEW",
					index, shard->relation, duplicates->map->nodes[shard->nodeno].name),
			 errdetail_internal("%s", detail),
			 keep_old_works ? errhint("ON_DUPLICATE KEEP_OLD works with it.") : 0));
}

static const char *
describe_problem(const char *problem)
{
	if (strcmp(problem, "deferrable") == 0)
		return "Its constraint is deferrable.";
	if (strcmp(problem, "exclusion") == 0)
		return "It belongs to an exclusion constraint.";
	if (strcmp(problem, "partial") == 0)
		return "It is partial.";
	return "It is on an expression.";
}

/* Reads a column of a unique index. */
static void
read_index(ShardDuplicates *duplicates, int shardno, PGresult *res, int row)
{
	DuplicateShard *shard = &duplicates->shards[shardno];
	const char *index = need_text(duplicates->cxt, res, row, ANSWER_NAME);
	const char *problem = answer_text(duplicates->cxt, res, row, ANSWER_FIRST);
	const char *column;
	bool		keep_new = duplicates->how == SHARD_DUPLICATE_KEEP_NEW;
	bool		another = shard->last_index == NULL || strcmp(shard->last_index, index) != 0;

	shard->any_index = true;
	if (problem != NULL && (keep_new || strcmp(problem, "deferrable") == 0))
		refuse_index(duplicates, shardno, index, describe_problem(problem),
					 strcmp(problem, "deferrable") != 0);
	if (!keep_new)
		return;
	column = need_text(duplicates->cxt, res, row, ANSWER_SECOND);
	if (find_column(shard, column) == NULL)
		refuse_index(duplicates, shardno, index,
					 psprintf("COPY does not fill its column \"%s\".", column), true);
	if (another && shard->last_index != NULL)
		appendStringInfoString(&shard->condition, ") OR (");
	else if (!another)
		appendStringInfoString(&shard->condition, " AND ");
	appendStringInfoString(&shard->condition, need_text(duplicates->cxt, res, row, ANSWER_THIRD));
	shard->last_index = index;
}

/* The answer becomes part of commands, so a node must not answer for shards of other nodes. */
static void
read_answer(ShardDuplicates *duplicates, int nodeno, PGresult *res)
{
	if (PQnfields(res) <= ANSWER_THIRD)
		elog(ERROR, "unexpected number of columns in the answer of a node");
	for (int row = 0; row < PQntuples(res); row++)
	{
		int			shardno = atoi(PQgetvalue(res, row, ANSWER_SHARD));
		DuplicateShard *shard;
		DuplicateColumn *column;
		const Shard *mapped;

		CHECK_FOR_INTERRUPTS();
		if (shardno < 0 || shardno >= duplicates->map->nshards || duplicates->map->shards[shardno].nodeno != nodeno)
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("a node of table \"%s\" answered for a shard that it was not asked about",
							get_rel_name(duplicates->map->relid))));
		shard = &duplicates->shards[shardno];
		mapped = &duplicates->map->shards[shardno];
		switch ((AnswerKind) atoi(PQgetvalue(res, row, ANSWER_KIND)))
		{
			case KIND_TABLE:
				if (!PQgetisnull(res, row, ANSWER_FIRST))
					ereport(ERROR,
							(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
							 errmsg("ON_DUPLICATE lacks %s on node \"%s\"",
									PQgetvalue(res, row, ANSWER_FIRST),
									duplicates->map->nodes[mapped->nodeno].name),
							 errdetail("If there are duplicates, rows for %s are copied into a staging table in its schema first.",
									   mapped->relation)));
				shard->schema = need_text(duplicates->cxt, res, row, ANSWER_NAME);
				break;
			case KIND_COLUMN:
				column = find_column(shard, PQgetvalue(res, row, ANSWER_NAME));
				if (column == NULL)
					break;
				column->type = need_text(duplicates->cxt, res, row, ANSWER_FIRST);
				column->dflt = answer_text(duplicates->cxt, res, row, ANSWER_SECOND);
				column->always_identity = strcmp(PQgetvalue(res, row, ANSWER_THIRD), "a") == 0;
				break;
			case KIND_INDEX:
				read_index(duplicates, shardno, res, row);
				break;
		}
	}
}

static void
ask_nodes(ShardDuplicates *duplicates)
{
	const ShardMap *map = duplicates->map;
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * map->nnodes);

	for (int i = 0; i < map->nnodes; i++)
	{
		commands[i] = (ShardCommand) {.serverid = map->nodes[i].serverid, .userid = GetUserId(),
			.sql = build_question(map, i), .portable_text = true};
	}
	shard_command_run(commands, map->nnodes, SHARD_COMMAND_READ, false);
	for (int i = 0; i < map->nnodes; i++)
		read_answer(duplicates, i, commands[i].result);
	shard_command_free(commands, map->nnodes);
}

/* Sets the names on the node of the columns that COPY fills. */
static void
set_columns(DuplicateShard *shard, Oid parent_relid, Oid shard_relid, List *attnos)
{
	shard->columns = palloc0(sizeof(DuplicateColumn) * Max(list_length(attnos), 1));
	foreach_int(parent_attno, attnos)
	{
		AttrNumber	attno = (AttrNumber) parent_attno;

		/* attribute numbers may differ, because of dropped columns */
		if (parent_relid != shard_relid)
			attno = get_attnum(shard_relid, get_attname(parent_relid, attno, false));
		shard->columns[shard->ncolumns++].name = shard_option_column_name(shard_relid, attno);
	}
}

static void
report_unguarded(const ShardDuplicates *duplicates)
{
	for (int i = 0; i < duplicates->map->nshards; i++)
	{
		const DuplicateShard *shard = &duplicates->shards[i];

		if (shard->schema == NULL || shard->any_index)
			continue;
		ereport(NOTICE,
				(errmsg("ON_DUPLICATE has no effect on table %s on node \"%s\"",
						duplicates->map->shards[i].relation,
						duplicates->map->nodes[duplicates->map->shards[i].nodeno].name),
				 errdetail("It has no unique index.")));
		return;
	}
}

ShardDuplicates *
shard_duplicate_open(MemoryContext cxt, const ShardMap *map, List *attnos, ShardCopyDuplicate how)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardDuplicates *duplicates = palloc0(sizeof(ShardDuplicates));

	Assert(how != SHARD_DUPLICATE_ERROR);
	duplicates->cxt = cxt;
	duplicates->map = map;
	duplicates->how = how;
	duplicates->shards = palloc0(sizeof(DuplicateShard) * map->nshards);
	for (int i = 0; i < map->nshards; i++)
	{
		set_columns(&duplicates->shards[i], map->relid, map->shards[i].relid, attnos);
		initStringInfo(&duplicates->shards[i].condition);
	}
	ask_nodes(duplicates);
	report_unguarded(duplicates);
	MemoryContextSwitchTo(oldcxt);
	return duplicates;
}

/* ---------- commands ---------- */

/* ORDINAL, or a longer name if the table has a column with that name. */
static const char *
ordinal_column(const DuplicateShard *shard)
{
	const char *name = ORDINAL;

	while (find_column(shard, name) != NULL)
		name = psprintf("%s_", name);
	return name;
}

static char *
build_create(const DuplicateShard *shard, const char *staging)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE UNLOGGED TABLE %s (", staging);
	for (int i = 0; i < shard->ncolumns; i++)
	{
		const DuplicateColumn *column = &shard->columns[i];

		/* the type is unknown if the node's table lacks the column, but then COPY has failed before */
		appendStringInfo(&sql, "%s %s", quote_identifier(column->name), column->type ? column->type : "text");
		if (column->dflt != NULL)
			appendStringInfo(&sql, " DEFAULT %s", column->dflt);
		appendStringInfoString(&sql, ", ");
	}
	appendStringInfo(&sql, "%s bigint GENERATED ALWAYS AS IDENTITY)", ordinal_column(shard));
	return sql.data;
}

/* INSERT of row s in the same way as COPY: explicit values override identity columns. */
static void
append_insert(StringInfo sql, const DuplicateShard *shard, const char *relation)
{
	appendStringInfo(sql, "INSERT INTO %s (", relation);
	for (int i = 0; i < shard->ncolumns; i++)
		appendStringInfo(sql, "%s%s", i > 0 ? ", " : "", quote_identifier(shard->columns[i].name));
	appendStringInfoString(sql, ") OVERRIDING SYSTEM VALUE VALUES (");
	for (int i = 0; i < shard->ncolumns; i++)
		appendStringInfo(sql, "%ss.%s", i > 0 ? ", " : "", quote_identifier(shard->columns[i].name));
	appendStringInfoString(sql, ") ON CONFLICT DO NOTHING; ");
}

/*
 * UPDATE of the row t that has a key of s.  A GENERATED ALWAYS AS IDENTITY column cannot be updated.  If there is no
 * other column, both rows are the same.
 */
static void
append_update(StringInfo sql, const DuplicateShard *shard, const char *relation)
{
	bool		first = true;

	for (int i = 0; i < shard->ncolumns; i++)
	{
		const char *name = quote_identifier(shard->columns[i].name);

		if (shard->columns[i].always_identity)
			continue;
		if (first)
			appendStringInfo(sql, "UPDATE %s AS t SET %s = s.%s", relation, name, name);
		else
			appendStringInfo(sql, ", %s = s.%s", name, name);
		first = false;
	}
	if (first)
		appendStringInfo(sql, "PERFORM 1 FROM %s AS t", relation);
	appendStringInfo(sql, " WHERE (%s); ", shard->condition.len > 0 ? shard->condition.data : "false");
}

static char *
build_merge(const ShardDuplicates *duplicates, const DuplicateShard *shard, const char *relation,
			const char *staging)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "DECLARE s record; n bigint := 0; tries int; refused bigint[] := '{}'; replaced bigint := 0; "
					 "BEGIN FOR s IN SELECT * FROM %s ORDER BY %s LOOP ", staging, ordinal_column(shard));
	if (duplicates->how == SHARD_DUPLICATE_KEEP_OLD)
	{
		append_insert(&sql, shard, relation);
		appendStringInfoString(&sql, "n := n + 1; IF NOT FOUND THEN refused := refused || n; END IF; ");
	}
	else
	{
		/* Another session may delete the row in between, and a trigger may prevent that it is stored at all. */
		appendStringInfoString(&sql, "tries := 0; LOOP ");
		append_insert(&sql, shard, relation);
		appendStringInfoString(&sql, "EXIT WHEN FOUND; ");
		append_update(&sql, shard, relation);
		appendStringInfoString(&sql,
							   "IF FOUND THEN replaced := replaced + 1; EXIT; END IF; "
							   "tries := tries + 1; IF tries = 10 THEN RAISE EXCEPTION USING "
							   "ERRCODE = 'integrity_constraint_violation', "
							   "MESSAGE = 'row can neither be inserted nor replace another one'; END IF; "
							   "END LOOP; ");
	}
	appendStringInfoString(&sql,
						   "END LOOP; PERFORM set_config('" REFUSED "', refused::text, true), "
						   "set_config('" REPLACED "', replaced::text, true); END");
	return psprintf("DO LANGUAGE plpgsql %s", quote_literal_cstr(sql.data));
}

/* COPY into the staging table instead of the shard. */
static char *
build_copy(const char *copy_sql, const char *relation, const char *staging)
{
	char	   *prefix = psprintf("COPY %s ", relation);

	if (strncmp(copy_sql, prefix, strlen(prefix)) != 0)
		elog(ERROR, "unexpected COPY command \"%s\"", copy_sql);
	return psprintf("COPY %s %s", staging, copy_sql + strlen(prefix));
}

const ShardCopyStaging *
shard_duplicate_staging(ShardDuplicates *duplicates, int shardno, const char *copy_sql)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(duplicates->cxt);
	ShardCopyStaging *result = palloc0(sizeof(ShardCopyStaging));
	DuplicateShard *shard = &duplicates->shards[shardno];
	const Shard *mapped = &duplicates->map->shards[shardno];
	char	   *staging;

	/* Other coordinators may load into the same table: the last part of the name distinguishes them. */
	staging = psprintf("%s.shardfdw_stage_%d_%u_%08x", shard->schema ? shard->schema : "public",
					   MyProcPid, mapped->relid, pg_prng_uint32(&pg_global_prng_state));
	result->create_sql = build_create(shard, staging);
	result->copy_sql = build_copy(copy_sql, mapped->relation, staging);
	result->merge_sql = build_merge(duplicates, shard, mapped->relation, staging);
	result->result_sql = "SELECT o, NULL::bigint AS r FROM unnest(current_setting('" REFUSED "')::bigint[]) o "
		"UNION ALL SELECT NULL, current_setting('" REPLACED "')::bigint ORDER BY o NULLS LAST";
	result->clear_sql = psprintf("TRUNCATE %s", staging);
	result->drop_sql = psprintf("DROP TABLE %s", staging);
	MemoryContextSwitchTo(oldcxt);
	return result;
}
