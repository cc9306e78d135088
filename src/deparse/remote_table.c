/*
 * remote_table.c
 *	  Queries a node about a shard's table: the types of its columns, and whether it may skip rows.
 *
 * Users can create foreign tables with other types than the node's tables have.  The node would convert text, but it
 * would misread a binary value (a timestamp and a bigint both have eight bytes).  So a session queries the node
 * before it sends the first binary row to a table.
 *
 * A trigger or rule on the node may store a row in another table, or not at all (the old way of partitioning).  Then
 * COPY stores fewer rows than it receives.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/transam.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "catalog_scan.h"
#include "compat.h"
#include "deparse/remote_table.h"
#include "hash_table.h"
#include "lib/stringinfo.h"
#include "remote/run/command.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Columns of the query's result. */
enum
{
	ANSWER_TABLE,				/* 0-based position of the table in the query */
	ANSWER_COLUMN,
	ANSWER_TYPE,				/* OID; base type for a domain */
	ANSWER_IS_ENUM,
	ANSWER_TYPE_SCHEMA,			/* of the declared type */
	ANSWER_TYPE_NAME,
	ANSWER_TYPMOD,
	ANSWER_SKIPS_ROWS
};

typedef struct RemoteTable
{
	Oid			relid;			/* hash key: the foreign table */
	bool		same_types;
	bool		same_declarations;
	bool		skips_rows;
} RemoteTable;

static HTAB *tables = NULL;

/* A table in the query. */
typedef struct AskedTable
{
	Oid			relid;
	const char *relation;		/* qualified name on the node */
} AskedTable;

void
shard_remote_table_invalidate(Oid relid)
{
	HASH_SEQ_STATUS scan;
	RemoteTable *entry;

	if (tables == NULL)
		return;
	if (OidIsValid(relid))
	{
		hash_search(tables, &relid, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&scan, tables);
	while ((entry = hash_seq_search(&scan)) != NULL)
		hash_search(tables, &entry->relid, HASH_REMOVE, NULL);
}

/*
 * The table, and those of its siblings on the same node that have not been queried yet.  Result: array in the current
 * context.
 */
static AskedTable *
collect_tables(Oid relid, Oid serverid, int *ntables)
{
	const ShardMap *map = NULL;
	AskedTable *asked;

	/*
	 * A statement on the shard alone has not locked its parent.  Waiting for that lock now would be the wrong order.
	 * If the lock is not available, only the shard is queried.
	 */
	if (get_rel_relispartition(relid))
	{
		Oid			parent = get_partition_parent(relid, true);

		if (ConditionalLockRelationOid(parent, AccessShareLock))
			map = shard_map_get(parent);
	}
	if (map == NULL || shard_map_find(map, relid) < 0)
		map = shard_map_get(relid);
	if (map == NULL)
		elog(ERROR, "relation %u is not a shard", relid);

	asked = palloc(sizeof(AskedTable) * map->nshards);
	*ntables = 0;
	for (int i = 0; i < map->nshards; i++)
	{
		const Shard *shard = &map->shards[i];

		if (shard->serverid != serverid ||
			hash_search(tables, &shard->relid, HASH_FIND, NULL) != NULL)
			continue;
		asked[*ntables].relid = shard->relid;
		asked[*ntables].relation = shard->relation;
		(*ntables)++;
	}
	return asked;
}

static char *
build_question(const AskedTable *asked, int ntables)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql,
						   "SELECT q.n, a.attname,"
						   " CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END::int8,"
						   " t.typtype = 'e', n.nspname, t.typname, a.atttypmod, s.skips_rows"
						   " FROM (VALUES ");
	for (int i = 0; i < ntables; i++)
		appendStringInfo(&sql, "%s(%d, %s)", i > 0 ? ", " : "", i,
						 quote_literal_cstr(asked[i].relation));
	appendStringInfoString(&sql,
						   ") AS q (n, name)"
						   " CROSS JOIN LATERAL (SELECT"
						   /* row-level, BEFORE or INSTEAD OF INSERT; in partitions, too */
						   " EXISTS (SELECT FROM pg_trigger g WHERE g.tgtype & 5 = 5 AND g.tgtype & 66 <> 0"
						   " AND g.tgenabled IN ('O', 'A') AND g.tgrelid IN (SELECT to_regclass(q.name)::oid"
						   " UNION ALL SELECT relid::oid FROM pg_partition_tree(to_regclass(q.name))))"
						   " OR EXISTS (SELECT FROM pg_rewrite w WHERE w.ev_class = to_regclass(q.name)"
						   " AND w.ev_type = '3' AND w.ev_enabled IN ('O', 'A'))) AS s (skips_rows)"
						   " JOIN pg_attribute a ON a.attrelid = to_regclass(q.name) AND a.attnum > 0 AND NOT a.attisdropped"
						   " JOIN pg_type t ON t.oid = a.atttypid"
						   " JOIN pg_namespace n ON n.oid = t.typnamespace"
						   " ORDER BY q.n");
	return sql.data;
}

static bool
is_text(Oid type)
{
	return type == TEXTOID || type == VARCHAROID || type == BPCHAROID;
}

/* Does a column of the remote type read and write the binary form that tuple/encode.c uses for the local type? */
static bool
binary_fits(Oid local, Oid remote, bool remote_enum)
{
	local = getBaseType(local);
	if (local >= FirstGenbkiObjectId)
		return type_is_enum(local) && remote_enum;
	/* a cast to text removes the blanks of char(n) */
	return local == remote || (is_text(local) && is_text(remote) && remote != BPCHAROID);
}

/* Is the remote column declared with the type of the local one? */
static bool
same_declaration(Form_pg_attribute att, PGresult *res, int row)
{
	HeapTuple	tuple = shard_catalog_row(TYPEOID, att->atttypid);
	Form_pg_type type;
	char	   *schema;
	bool		same;

	type = (Form_pg_type) GETSTRUCT(tuple);
	schema = get_namespace_name(type->typnamespace);
	same = schema != NULL &&
		strcmp(schema, PQgetvalue(res, row, ANSWER_TYPE_SCHEMA)) == 0 &&
		strcmp(NameStr(type->typname), PQgetvalue(res, row, ANSWER_TYPE_NAME)) == 0 &&
		att->atttypmod == atoi(PQgetvalue(res, row, ANSWER_TYPMOD));
	ReleaseSysCache(tuple);
	return same;
}

/* Names on the node of the columns of rel, indexed by attribute number - 1.  NULL for dropped columns. */
static const char **
remote_names(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	const char **names = palloc0(sizeof(char *) * Max(desc->natts, 1));

	for (int i = 0; i < desc->natts; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped)
			names[i] = shard_option_column_name(RelationGetRelid(rel), i + 1);
	}
	return names;
}

/* Position of name in names, searched from the likely position; -1: not found. */
static int
find_name(const char *name, const char **names, int nnames, int likely)
{
	for (int n = 0; n < nnames; n++)
	{
		int			i = (likely + n) % nnames;

		if (names[i] != NULL && strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}

/* Rows [row, end) of the answer describe one table.  Fills its entry. */
static void
read_answer(RemoteTable *entry, PGresult *res, int row, int end)
{
	Relation	rel = try_relation_open(entry->relid, AccessShareLock);

	const char **names;
	int			at = -1;

	entry->same_types = true;
	entry->same_declarations = true;
	entry->skips_rows = PQgetvalue(res, row, ANSWER_SKIPS_ROWS)[0] == 't';
	if (rel == NULL)
		return;
	names = remote_names(rel);
	for (; row < end; row++)
	{
		int			natts = RelationGetNumberOfAttributes(rel);
		int			found = find_name(PQgetvalue(res, row, ANSWER_COLUMN), names, natts, at + 1);

		if (found < 0)
			continue;
		at = found;
		if (!same_declaration(TupleDescAttr(RelationGetDescr(rel), at), res, row))
			entry->same_declarations = false;
		if (!binary_fits(TupleDescAttr(RelationGetDescr(rel), at)->atttypid,
						 atooid(PQgetvalue(res, row, ANSWER_TYPE)),
						 PQgetvalue(res, row, ANSWER_IS_ENUM)[0] == 't'))
			entry->same_types = false;
	}
	relation_close(rel, AccessShareLock);
}

/* Reads the whole answer. */
static void
remember_tables(PGresult *res, const AskedTable *asked, int ntables)
{
	int			nrows = PQntuples(res);
	int			end;

	for (int row = 0; row < nrows; row = end)
	{
		int			n = atoi(PQgetvalue(res, row, ANSWER_TABLE));
		RemoteTable answer = {0};
		RemoteTable *entry;

		if (n < 0 || n >= ntables)
			elog(ERROR, "unexpected table number %d in the answer of a node", n);
		for (end = row + 1; end < nrows; end++)
		{
			if (atoi(PQgetvalue(res, end, ANSWER_TABLE)) != n)
				break;
		}
		answer.relid = asked[n].relid;
		read_answer(&answer, res, row, end);
		entry = hash_search(tables, &answer.relid, HASH_ENTER, NULL);
		*entry = answer;
	}
}

static void
ask_node(Oid relid, Oid serverid, Oid userid)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw remote tables",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardCommand command;
	AskedTable *asked;
	int			ntables;

	asked = collect_tables(relid, serverid, &ntables);
	command = (ShardCommand) {.serverid = serverid, .userid = userid, .sql = build_question(asked, ntables),
		.nfields = ANSWER_SKIPS_ROWS + 1};
	shard_command_run(&command, 1, SHARD_COMMAND_READ, false);
	remember_tables(command.result, asked, ntables);
	shard_command_free(&command, 1);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
}

/* The entry of the table, after querying the node if necessary.  NULL: unknown. */
static const RemoteTable *
find_table(Oid relid, Oid serverid, Oid userid)
{
	const RemoteTable *entry;

	if (tables == NULL)
		tables = shard_hash_table_create("shardfdw remote tables", 64, sizeof(Oid), sizeof(RemoteTable), TopMemoryContext);
	entry = hash_search(tables, &relid, HASH_FIND, NULL);
	if (entry == NULL)
	{
		ask_node(relid, serverid, userid);
		entry = hash_search(tables, &relid, HASH_FIND, NULL);
	}
	return entry;
}

bool
shard_remote_table_same_types(Oid relid, Oid serverid, Oid userid)
{
	const RemoteTable *entry = find_table(relid, serverid, userid);

	return entry == NULL || entry->same_types;
}

bool
shard_remote_table_same_declarations(Oid relid, Oid serverid, Oid userid)
{
	const RemoteTable *entry = find_table(relid, serverid, userid);

	return entry == NULL || entry->same_declarations;
}

bool
shard_remote_table_may_skip_rows(Oid relid, Oid serverid, Oid userid)
{
	const RemoteTable *entry;

	/* if this extension has made the shard, a row that is not stored is an error */
	if (get_rel_relispartition(relid) && shard_option_definition_follows(serverid))
		return false;
	entry = find_table(relid, serverid, userid);
	return entry != NULL && entry->skips_rows;
}
