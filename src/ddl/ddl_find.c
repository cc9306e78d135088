/*
 * ddl_find.c
 *	  Finds the names of a table's indexes and constraints on its shards.
 *
 * ddl_name.c chooses the names of new ones.  Shards or indexes created by users may have other names, so an index is
 * also found by its definition.  Sends one query per node.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/home.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "catalog_scan.h"
#include "compat.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_send.h"
#include "ddl/ddl_text.h"
#include "deparse/print_settings.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

typedef struct IndexQuestion
{
	const ShardDdlIndex *index;
	char	  **found;			/* name on each shard */
} IndexQuestion;

char *
shard_ddl_list_shards(const ShardDdlTable *table, List *shardnos, const char *object)
{
	StringInfoData text;

	initStringInfo(&text);
	foreach_int(shardno, shardnos)
	{
		const ShardDdlShard *shard = &table->shards[shardno];

		appendStringInfo(&text, "%s(%d, to_regclass(%s), %s)", text.len > 0 ? ", " : "", shardno,
						 quote_literal_cstr(shard->relation),
						 quote_literal_cstr(shard_ddl_table_object(table, shard, object)));
	}
	return text.data;
}

/*
 * Expression for the name of the index in s, if it is an index of its shard.  A node's transaction may have a
 * snapshot that is older than the index or its name.  The functions in this expression see the latest committed
 * state.
 */
static char *
name_now(const ShardDdlTable *table, List *shardnos, const char *object)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, "CASE s.no");
	foreach_int(shardno, shardnos)
	{
		const ShardDdlShard *shard = &table->shards[shardno];
		const char *name = shard_ddl_table_object(table, shard, object);

		appendStringInfo(&text, " WHEN %d THEN (SELECT s.name FROM (SELECT pg_get_indexdef(to_regclass(%s))) d(definition) "
						 "WHERE starts_with(replace(d.definition, 'CREATE UNIQUE ', 'CREATE '), %s))", shardno,
						 quote_literal_cstr(quote_qualified_identifier(shard->schema, name)),
						 quote_literal_cstr(psprintf("CREATE INDEX %s ON %s USING ", quote_identifier(name), shard->relation)));
	}
	appendStringInfoString(&text, " END");
	return text.data;
}

/* Returns the condition that the name of the index in c is not the naming rule's name of another index of the table. */
static char *
not_of_others(const ShardDdlTable *table, List *shardnos, const List *others)
{
	StringInfoData text;

	if (others == NIL)
		return pstrdup("true");
	initStringInfo(&text);
	foreach_int(shardno, shardnos)
	{
		const ShardDdlShard *shard = &table->shards[shardno];

		foreach_ptr(char, other, others)
			appendStringInfo(&text, "%s(%d, %s)", text.len > 0 ? ", " : "", shardno,
							 quote_literal_cstr(shard_ddl_table_object(table, shard, other)));
	}
	return psprintf("(s.no, c.relname) NOT IN (%s)", text.data);
}

static char *
ask_index(const ShardDdlTable *table, List *shardnos, void *arg)
{
	IndexQuestion *question = arg;
	const char *unique = question->index->is_unique ? "UNIQUE " : "";

	return psprintf("SELECT s.no, coalesce(%s, (SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
					"WHERE i.indrelid = s.shard AND (c.relname = s.name OR (%s AND pg_get_indexdef(c.oid) = "
					"format('CREATE %sINDEX %%I ON %%I.%%I USING %%s', c.relname, "
					"(SELECT n.nspname FROM pg_namespace n WHERE n.oid = t.relnamespace), t.relname, %s))) "
					"ORDER BY c.relname = s.name DESC, c.relname LIMIT 1)) "
					"FROM (VALUES %s) s(no, shard, name) LEFT JOIN pg_class t ON t.oid = s.shard",
					name_now(table, shardnos, question->index->name),
					not_of_others(table, shardnos, question->index->others), unique, quote_literal_cstr(question->index->definition),
					shard_ddl_list_shards(table, shardnos, question->index->name));
}

static void
take_name(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	if (nfields == 1 && fields[0] != NULL)
		((char **) arg)[shardno] = pstrdup(fields[0]);
}

static void
take_index(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	take_name(table, shardno, nfields, fields, ((IndexQuestion *) arg)->found);
}

static void
raise_missing(const ShardDdlTable *table, int shardno, const char *kind, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("%s \"%s\" of table \"%s\" does not exist on node \"%s\"", kind, name, table->name,
					table->shards[shardno].node),
			 errdetail("Shard %s has no such %s.", table->shards[shardno].relation, kind),
			 errhint("Make it there with shardfdw.run_on_shards(), or set shardfdw.enable_ddl_propagation to off to change the coordinator alone.")));
}

/* Adds the names of a relation's indexes that are not in except.  Needs no lock. */
static List *
add_index_names(List *names, Oid relid, const List *except)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin_oid(&scan, IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid, relid);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Oid			index = ((Form_pg_index) GETSTRUCT(tuple))->indexrelid;
		char	   *name = list_member_oid(except, index) ? NULL : get_rel_name(index);

		if (name != NULL)
			names = lappend(names, name);
	}
	shard_catalog_scan_end(&scan);
	return names;
}

/* Indexes of the table, or of other tables in its partition tree, that do not contain index. */
static List *
list_other_indexes(Oid index)
{
	List	   *own = find_all_inheritors(shard_map_top(index), NoLock, NULL);
	List	   *names = NIL;

	foreach_oid(relid, find_all_inheritors(shard_map_top(IndexGetRelation(index, false)), NoLock, NULL))
		if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
			names = add_index_names(names, relid, own);
	return names;
}

ShardDdlIndex *
shard_ddl_index_describe(Oid index)
{
	ShardDdlIndex *described = palloc(sizeof(ShardDdlIndex));
	int			nestlevel = shard_print_settings_begin();

	described->name = get_rel_name(index);
	described->is_unique = DatumGetBool(shard_catalog_value(INDEXRELID, index, Anum_pg_index_indisunique));
	described->definition = shard_ddl_text_index(index);
	described->others = list_other_indexes(index);
	shard_print_settings_end(nestlevel);
	return described;
}

char **
shard_ddl_find_index_described(const ShardDdlTable *table, const ShardDdlIndex *index, bool missing_ok)
{
	IndexQuestion question = {index, palloc0(sizeof(char *) * table->nshards)};

	shard_ddl_ask(table, ask_index, take_index, &question);
	for (int i = 0; i < table->nshards && !missing_ok; i++)
	{
		/* the session sends no commands */
		if (shard_guc_follows_coordinator)
			question.found[i] = pstrdup(index->name);
		if (question.found[i] == NULL)
			raise_missing(table, i, "index", index->name);
	}
	return question.found;
}

char **
shard_ddl_find_index(const ShardDdlTable *table, Oid index)
{
	return shard_ddl_find_index_described(table, shard_ddl_index_describe(index), false);
}

/* Query for the shards that have an index equal to one of the parent. */
typedef struct EqualQuestion
{
	const ShardDdlIndex *index;
	bool		is_primary;
	bool		is_constraint;
	bool	   *found;			/* for each shard */
} EqualQuestion;

static char *
ask_equal(const ShardDdlTable *table, List *shardnos, void *arg)
{
	EqualQuestion *question = arg;

	return psprintf("SELECT s.no FROM (VALUES %s) s(no, shard, name) JOIN pg_index i ON i.indrelid = s.shard "
					"JOIN pg_class t ON t.oid = i.indrelid JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = t.relnamespace "
					"WHERE i.indisvalid AND %s i.indisprimary "
					"AND (NOT %s OR EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid)) "
					"AND pg_get_indexdef(c.oid) = format('CREATE %sINDEX %%I ON %%I.%%I USING %%s', c.relname, n.nspname, t.relname, %s)",
					shard_ddl_list_shards(table, shardnos, question->index->name), question->is_primary ? "" : "NOT",
					question->is_constraint ? "true" : "false", question->index->is_unique ? "UNIQUE " : "",
					quote_literal_cstr(question->index->definition));
}

static void
take_equal(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	((EqualQuestion *) arg)->found[shardno] = true;
}

bool *
shard_ddl_find_equal_index(const ShardDdlTable *table, Oid index)
{
	EqualQuestion question = {shard_ddl_index_describe(index)};

	question.is_primary = DatumGetBool(shard_catalog_value(INDEXRELID, index, Anum_pg_index_indisprimary));
	question.is_constraint = OidIsValid(get_index_constraint(index));
	question.found = palloc0(sizeof(bool) * table->nshards);
	shard_ddl_ask(table, ask_equal, take_equal, &question);
	return question.found;
}

Form_pg_constraint
shard_ddl_constraint(Oid relid, const char *name)
{
	Oid			oid = get_relation_constraint_oid(relid, name, true);
	HeapTuple	tuple = OidIsValid(oid) ? SearchSysCacheCopy1(CONSTROID, ObjectIdGetDatum(oid)) : NULL;

	return HeapTupleIsValid(tuple) ? (Form_pg_constraint) GETSTRUCT(tuple) : NULL;
}

typedef struct NameQuestion
{
	const char *name;
	char	  **found;
	const char *kinds;			/* constraint types, as SQL literals */
	const char *definition;		/* NULL: any */
} NameQuestion;

static char *
ask_constraint(const ShardDdlTable *table, List *shardnos, void *arg)
{
	NameQuestion *question = arg;

	return psprintf("SELECT s.no, k.conname FROM (VALUES %s) s(no, shard, name) "
					"JOIN pg_constraint k ON k.conrelid = s.shard AND k.contype IN (%s) AND k.conname = %s%s",
					shard_ddl_list_shards(table, shardnos, question->name), question->kinds, quote_literal_cstr(question->name),
					question->definition == NULL ? "" :
					psprintf(" AND pg_get_constraintdef(k.oid) = %s", quote_literal_cstr(question->definition)));
}

static void
take_named(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	take_name(table, shardno, nfields, fields, ((NameQuestion *) arg)->found);
}

bool
shard_ddl_find_shard_constraint(const ShardDdlTable *table, const char *name)
{
	/* for other tables, keys are those of the parent, and have other names on shards */
	NameQuestion question = {name, palloc0(sizeof(char *) * table->nshards),
	OidIsValid(shard_home_of(table->relid)) ? "'f', 'p', 'u', 'x'" : "'f'"};
	int			nfound = 0;
	int			missing = -1;

	/* the coordinator that has sent the statement checks it */
	if (shard_guc_follows_coordinator)
		return true;
	shard_ddl_ask(table, ask_constraint, take_named, &question);
	for (int i = 0; i < table->nshards; i++)
	{
		if (question.found[i] != NULL)
			nfound++;
		else
			missing = i;
	}
	if (nfound > 0 && missing >= 0)
		raise_missing(table, missing, "constraint", name);
	return nfound > 0;
}

char **
shard_ddl_find_check(const ShardDdlTable *table, const char *name, const char *definition)
{
	NameQuestion question = {name, palloc0(sizeof(char *) * table->nshards), "'c'", definition};

	shard_ddl_ask(table, ask_constraint, take_named, &question);
	return question.found;
}

typedef struct KeyQuestion
{
	const char *referenced;		/* qualified name of the table; NULL: others has the name for each shard */
	char	  **others;
	const char *columns;		/* arrays of names, as SQL expressions */
	const char *referenced_columns;
	char	   *found;
} KeyQuestion;

static char *
ask_foreign_key(const ShardDdlTable *table, List *shardnos, void *arg)
{
	KeyQuestion *question = arg;
	StringInfoData text;

	initStringInfo(&text);
	foreach_int(i, shardnos)
	{
		appendStringInfo(&text, "%s(%d, to_regclass(%s), to_regclass(%s))", text.len > 0 ? ", " : "", i,
						 quote_literal_cstr(table->shards[i].relation),
						 quote_literal_cstr(question->referenced ? question->referenced : question->others[i]));
	}
	return psprintf("SELECT s.no, k.conname FROM (VALUES %s) s(no, shard, referenced) "
					"JOIN pg_constraint k ON k.conrelid = s.shard AND k.confrelid = s.referenced AND k.contype = 'f' "
					"WHERE ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(attnum, ord) "
					"JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum ORDER BY u.ord) = %s "
					"AND ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(attnum, ord) "
					"JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.attnum ORDER BY u.ord) = %s",
					text.data, question->columns, question->referenced_columns);
}

static void
take_foreign_key(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	if (nfields == 1 && fields[0] != NULL)
		((KeyQuestion *) arg)->found = pstrdup(fields[0]);
}

/* ARRAY['a', 'b'] of names (String) */
static char *
names_array(List *names)
{
	StringInfoData text;

	initStringInfo(&text);
	foreach_node(String, name, names)
		appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : "", quote_literal_cstr(strVal(name)));
	return psprintf("ARRAY[%s]::text[]", text.data);
}

char *
shard_ddl_find_foreign_key(const ShardDdlTable *table, const char *referenced, char **others, List *columns, List *referenced_columns)
{
	KeyQuestion question = {referenced, others, names_array(columns), names_array(referenced_columns)};

	shard_ddl_ask(table, ask_foreign_key, take_foreign_key, &question);
	return question.found;
}

static char *
ask_statistics(const ShardDdlTable *table, List *shardnos, void *arg)
{
	return psprintf("SELECT s.no, x.stxname FROM (VALUES %s) s(no, shard, name) "
					"JOIN pg_statistic_ext x ON x.stxrelid = s.shard AND x.stxname = s.name",
					shard_ddl_list_shards(table, shardnos, ((NameQuestion *) arg)->name));
}

char **
shard_ddl_find_statistics(const ShardDdlTable *table, const char *name)
{
	NameQuestion question = {name, palloc0(sizeof(char *) * table->nshards)};

	shard_ddl_ask(table, ask_statistics, take_named, &question);
	return question.found;
}

/*
 * At REPEATABLE READ, the node's snapshot may have a key that has been dropped since. pg_describe_object() uses the
 * current catalog state, and returns NULL for it.
 */
static char *
ask_referrers(const ShardDdlTable *table, List *shardnos, void *arg)
{
	return psprintf("SELECT DISTINCT s.no, n.nspname, c.relname FROM (VALUES %s) s(no, shard, name) "
					"JOIN pg_constraint k ON k.confrelid = s.shard AND k.contype = 'f' AND k.conrelid <> k.confrelid "
					"JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
					"WHERE pg_describe_object('pg_constraint'::regclass, k.oid, 0) IS NOT NULL",
					shard_ddl_list_shards(table, shardnos, ""));
}

typedef struct ReferrerQuestion
{
	bool		known_only;
	List	   *found;			/* OIDs */
} ReferrerQuestion;

static void
take_referrer(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	ReferrerQuestion *question = arg;
	Oid			nspid;
	Oid			relid;
	ShardDdlShard shard;

	shard_ddl_need_fields(table, nfields, fields, 2);
	nspid = get_namespace_oid(fields[0], true);
	relid = OidIsValid(nspid) ? get_relname_relid(fields[1], nspid) : InvalidOid;
	if (OidIsValid(relid) &&
		(shard_reference_is(relid) ||
		 (shard_ddl_table_shard(relid, &shard) && shard.serverid == table->shards[shardno].serverid)))
		question->found = list_append_unique_oid(question->found, relid);
	else if (!question->known_only)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("table %s on node \"%s\" refers to table \"%s\", and is none of the coordinator's",
						quote_qualified_identifier(fields[0], fields[1]),
						GetForeignServer(table->shards[shardno].serverid)->servername, table->name)));
}

List *
shard_ddl_find_referrers(const ShardDdlTable *table, bool known_only)
{
	ReferrerQuestion question = {known_only, NIL};

	shard_ddl_ask(table, ask_referrers, take_referrer, &question);
	return list_delete_oid(question.found, table->relid);
}

typedef struct ActionQuestion
{
	char	  **referenced;		/* as for shard_ddl_check_actions() */
	List	  **before;			/* per shard, OIDs of shards: their changes may reach the shard ... */
	List	  **after;			/* ... and its changes may reach them */
} ActionQuestion;

static char *
ask_actions(const ShardDdlTable *table, List *shardnos, void *arg)
{
	char	  **referenced = ((ActionQuestion *) arg)->referenced;
	StringInfoData text;

	initStringInfo(&text);
	foreach_int(i, shardnos)
	{
		const char *shard = table->shards[i].relation;

		appendStringInfo(&text, "%s(%d, true, to_regclass(%s)), (%d, false, to_regclass(%s))", text.len > 0 ? ", " : "",
						 i, quote_literal_cstr(referenced != NULL ? referenced[i] : shard), i, quote_literal_cstr(shard));
	}
	return psprintf("WITH RECURSIVE r(no, is_before, relid) AS (VALUES %s UNION "
					"SELECT r.no, r.is_before, CASE WHEN r.is_before THEN k.confrelid ELSE k.conrelid END FROM r JOIN pg_constraint k "
					"ON CASE WHEN r.is_before THEN k.conrelid ELSE k.confrelid END = r.relid AND k.contype = 'f' "
					"AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))) "
					"SELECT r.no, r.is_before, n.nspname, c.relname FROM r JOIN pg_class c ON c.oid = r.relid "
					"JOIN pg_namespace n ON n.oid = c.relnamespace", text.data);
}

static void
take_action(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	ActionQuestion *question = arg;
	List	  **lists;
	Oid			relid;

	shard_ddl_need_fields(table, nfields, fields, 3);
	lists = fields[0][0] == 't' ? question->before : question->after;
	relid = shard_option_find_table(table->shards[shardno].serverid, fields[1], fields[2]);
	if (OidIsValid(relid) && get_rel_relispartition(relid))
		lists[shardno] = lappend_oid(lists[shardno], relid);
}

/* The partition bound of a table.  NULL: it is not a partition. */
static Node *
bound_of(Oid relid)
{
	HeapTuple	tuple = shard_catalog_row(RELOID, relid);
	bool		isnull;
	Datum		bound = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
	Node	   *result = isnull ? NULL : stringToNode(TextDatumGetCString(bound));

	ReleaseSysCache(tuple);
	return result;
}

/*
 * May one statement change shard before first, and use shard after in a later command on its node?  Shards of different
 * tables are used in one command if the tables are colocated.  Then sharded tables that are partitions have equal bounds.
 */
static bool
are_apart(Oid before, Oid after)
{
	Node	   *bound;
	Node	   *other;

	if (before == after)
		return false;
	if (shard_map_top(before) == shard_map_top(after))
		return true;
	bound = bound_of(get_partition_parent(before, true));
	other = bound_of(get_partition_parent(after, true));
	return bound != NULL && other != NULL && !equal(bound, other);
}

/* The partition to name in an error about shard: its table, unless other is a shard of the same table. */
static Oid
shown_partition(Oid shard, Oid other)
{
	Oid			parent = get_partition_parent(shard, true);

	return parent == get_partition_parent(other, true) ? shard : parent;
}

void
shard_ddl_check_actions(const ShardDdlTable *table, char **referenced)
{
	ActionQuestion question = {referenced, palloc0(sizeof(List *) * table->nshards), palloc0(sizeof(List *) * table->nshards)};

	/* the coordinator that sent the statement has checked it */
	if (shard_guc_follows_coordinator)
		return;
	shard_ddl_ask(table, ask_actions, take_action, &question);
	for (int i = 0; i < table->nshards; i++)
	{
		foreach_oid(before, question.before[i])
		{
			foreach_oid(after, question.after[i])
			{
				if (are_apart(before, after))
					ereport(ERROR,
							(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							 errmsg("partitions \"%s\" and \"%s\" cannot have a foreign key with an action",
									get_rel_name(shown_partition(after, before)), get_rel_name(shown_partition(before, after))),
							 errdetail("Nodes run ON DELETE and ON UPDATE actions before a statement has reached all partitions. The foreign key may lead through other tables."),
							 errhint("Use a foreign key without actions, tables that are not partitions, or partitions of different tables with equal bounds.")));
			}
		}
	}
}
