/*
 * ddl_alter_key.c
 *	  Keys and other constraints of ALTER TABLE.
 *
 * - CHECK: the same on the coordinator and on all shards, with one name.
 * - PRIMARY KEY, UNIQUE: on the coordinator only a marker on the parent.  Each shard enforces the key by an index
 *   with a separate name.  Without the shard key, it is only on the shard, if there is only one (ddl_alter_home.c).
 * - FOREIGN KEY: on the shards only, because core allows none on a parent of foreign tables.  It references the replica
 *   of a reference table, or the shard with the same number of a colocated table.
 * - Constraints of reference tables: the coordinator checks foreign keys, deferrable and exclusion constraints.
 *   Replicas have plain indexes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/colocate.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/qualified.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "catalog_scan.h"
#include "commands/comment.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_here.h"
#include "ddl/ddl_text.h"
#include "ddl/marker_level.h"
#include "deparse/print_settings.h"
#include "guc.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "partitioning/partdefs.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"

/* Calls visit for each constraint of a table. */
static void
each_constraint(Oid relid, void (*visit) (Form_pg_constraint constraint, void *arg), void *arg)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin_oid(&scan, ConstraintRelationId, ConstraintRelidTypidNameIndexId, Anum_pg_constraint_conrelid, relid);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
		visit((Form_pg_constraint) GETSTRUCT(tuple), arg);
	shard_catalog_scan_end(&scan);
}

static void
note_name(Form_pg_constraint constraint, void *arg)
{
	List	  **names = arg;

	*names = lappend(*names, pstrdup(NameStr(constraint->conname)));
}

void
shard_alter_note_constraints(ShardAlterState *state)
{
	each_constraint(state->table->relid, note_name, &state->constraints);
}

static bool
is_noted(ShardAlterState *state, const char *name)
{
	foreach_ptr(char, noted, state->constraints)
		if (strcmp(noted, name) == 0)
			return true;
	return false;
}

/* Quoted names of an object on each shard. */
static char **
quoted_names(const ShardDdlTable *table, const char *object)
{
	char	  **names = palloc(sizeof(char *) * table->nshards);

	for (int i = 0; i < table->nshards; i++)
		names[i] = pstrdup(quote_identifier(shard_ddl_table_object(table, &table->shards[i], object)));
	return names;
}

static char **
quote_names(const ShardDdlTable *table, char **names)
{
	char	  **quoted = palloc(sizeof(char *) * table->nshards);

	for (int i = 0; i < table->nshards; i++)
		quoted[i] = pstrdup(quote_identifier(names[i]));
	return quoted;
}

/*
 * Foreign keys of shards
 */

List *
shard_alter_primary_key(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	List	   *columns = NIL;

	foreach_oid(indexid, RelationGetIndexList(rel))
	{
		HeapTuple	tuple = shard_catalog_row(INDEXRELID, indexid);
		Form_pg_index index = (Form_pg_index) GETSTRUCT(tuple);

		if (index->indisprimary)
			for (int i = 0; i < index->indnkeyatts; i++)
				columns = lappend(columns, makeString(get_attname(relid, index->indkey.values[i], false)));
		ReleaseSysCache(tuple);
	}
	table_close(rel, AccessShareLock);
	return columns;
}

/* Do the columns of the foreign key pair the shard keys of both tables? */
static bool
pairs_shard_keys(Oid relid, List *columns, Oid referenced, List *referenced_columns)
{
	Relation	rel = table_open(relid, NoLock);
	Relation	referenced_rel = table_open(referenced, NoLock);
	PartitionKey key = RelationGetPartitionKey(rel);
	PartitionKey referenced_key = RelationGetPartitionKey(referenced_rel);
	bool		result = key->partnatts == referenced_key->partnatts &&
		list_length(columns) == list_length(referenced_columns);

	for (int i = 0; i < key->partnatts && result; i++)
	{
		ListCell   *lc;
		ListCell   *lc2;
		bool		found = false;

		forboth(lc, columns, lc2, referenced_columns)
			if (key->partattrs[i] != 0 &&
				get_attnum(relid, strVal(lfirst(lc))) == key->partattrs[i] &&
				get_attnum(referenced, strVal(lfirst(lc2))) == referenced_key->partattrs[i])
				found = true;
		result = found;
	}
	table_close(referenced_rel, NoLock);
	table_close(rel, NoLock);
	return result;
}

static void
check_references_right(Oid referenced, List *columns)
{
	if (pg_class_aclcheck(referenced, GetUserId(), ACL_REFERENCES) == ACLCHECK_OK)
		return;
	foreach_node(String, column, columns)
	{
		AttrNumber	attno = get_attnum(referenced, strVal(column));

		if (pg_attribute_aclcheck(referenced, attno, GetUserId(), ACL_REFERENCES) != ACLCHECK_OK)
			aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(referenced));
	}
	if (columns == NIL)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(referenced));
}

const char *
shard_alter_key_column(Oid relid, int i)
{
	Relation	rel = table_open(relid, AccessShareLock);
	PartitionKey key = RelationGetPartitionKey(rel);
	const char *name = i < key->partnatts && key->partattrs[i] != 0 ? get_attname(relid, key->partattrs[i], false) : NULL;

	table_close(rel, NoLock);
	return name;
}

/* Hint: how to make a foreign key to that table possible. */
static int
hint_for_reference(const ShardAlterState *state, Oid referenced, List *own_columns, List *columns)
{
	const char *name = quote_literal_cstr(shard_qualified_relation(referenced));
	const char *own = shard_alter_key_column(state->table->relid, 0);
	const char *other = NULL;
	ListCell   *lc;
	ListCell   *lc2;

	if (get_rel_relkind(referenced) != RELKIND_PARTITIONED_TABLE || shard_map_get(referenced) == NULL)
	{
		forboth(lc, own_columns, lc2, columns)
		{
			if (own && strcmp(strVal(lfirst(lc)), own) == 0)
				other = strVal(lfirst(lc2));
		}
		if (other == NULL)
			return errhint("Make it a reference table: SELECT shardfdw.create_reference_table(%s).", name);
		return errhint("Make it a reference table, SELECT shardfdw.create_reference_table(%s), or colocate it with this table, SELECT shardfdw.shard_table(%s, %s, colocate_with => %s).",
					   name, name, quote_literal_cstr(other), quote_literal_cstr(shard_qualified_relation(state->table->relid)));
	}
	if (!shard_colocated(state->table->relid, referenced))
		return errhint("Tables with foreign keys have to be colocated: shard one of them again, with colocate_with.");
	other = shard_alter_key_column(referenced, 0);
	if (own == NULL || other == NULL)
		return errhint("It can refer to a reference table, or to a colocated sharded table when it pairs the shard keys of the two.");
	return errhint("Pair the shard keys in it: FOREIGN KEY (%s, ...) REFERENCES %s (%s, ...).", quote_identifier(own),
				   quote_identifier(get_rel_name(referenced)), quote_identifier(other));
}

/* Quoted names of the shards that the shards of state's table reference. */
static char **
referenced_shards(ShardAlterState *state, Oid referenced, Constraint *constraint, List *columns)
{
	ShardDdlTable *other = shard_ddl_table(referenced);
	char	  **names = palloc(sizeof(char *) * state->table->nshards);
	const ShardMap *map = shard_map_get(state->table->relid);
	const ShardMap *other_map;
	bool		at_home = map != NULL && OidIsValid(map->home);

	if (other == NULL || other->is_reference || get_rel_relkind(referenced) != RELKIND_PARTITIONED_TABLE ||
		!shard_colocated(state->table->relid, referenced) ||
		(!at_home && !pairs_shard_keys(state->table->relid, constraint->fk_attrs, referenced, columns)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot add a foreign key from sharded table \"%s\" to table \"%s\"",
						state->table->name, get_rel_name(referenced)),
				 errdetail("A foreign key cannot be checked across nodes."),
				 hint_for_reference(state, referenced, constraint->fk_attrs, columns)));
	other_map = shard_map_get(referenced);
	if (map == NULL || other_map == NULL)
		shard_ddl_table_refuse(state->table, "a foreign key to a sharded table with partitions of several levels", "Add it to the partitions one by one.");
	for (int i = 0; i < state->table->nshards; i++)
	{
		int			shardno = shard_map_find(map, state->table->shards[i].relid);

		names[i] = pstrdup(other_map->shards[shardno].relation);
	}
	return names;
}

static const char *
action_text(char action)
{
	switch (action)
	{
		case FKCONSTR_ACTION_RESTRICT:
			return "RESTRICT";
		case FKCONSTR_ACTION_CASCADE:
			return "CASCADE";
		case FKCONSTR_ACTION_SETNULL:
			return "SET NULL";
		case FKCONSTR_ACTION_SETDEFAULT:
			return "SET DEFAULT";
		default:
			return "NO ACTION";
	}
}

static bool
has_action(char action)
{
	return action != FKCONSTR_ACTION_NOACTION && action != FKCONSTR_ACTION_RESTRICT;
}

/* Is one of the columns part of the shard key, on any level? */
static bool
has_key_column(Oid relid, List *columns)
{
	bool		result = false;

	foreach_oid(memberid, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		Relation	rel = table_open(memberid, NoLock);
		PartitionKey key = RelationGetPartitionKey(rel);
		Bitmapset  *attnos = NULL;

		if (key != NULL)
		{
			pull_varattnos((Node *) key->partexprs, 1, &attnos);
			for (int i = 0; i < key->partnatts; i++)
				attnos = bms_add_member(attnos, key->partattrs[i] - FirstLowInvalidHeapAttributeNumber);
		}
		foreach_node(String, column, columns)
			result = result || bms_is_member(get_attnum(memberid, strVal(column)) - FirstLowInvalidHeapAttributeNumber, attnos);
		table_close(rel, NoLock);
	}
	return result;
}

/*
 * Refuses actions that would change the shard key of rows on a node, so that the rows would no longer belong to their
 * shard.  A key that references a shard may change the shard key together with the referenced key, which is on the
 * same shard.
 */
static void
check_actions(const ShardAlterState *state, const Constraint *constraint, bool to_reference)
{
	bool		sets = constraint->fk_del_action == FKCONSTR_ACTION_SETNULL || constraint->fk_del_action == FKCONSTR_ACTION_SETDEFAULT;
	bool		follows = constraint->fk_upd_action == FKCONSTR_ACTION_SETNULL || constraint->fk_upd_action == FKCONSTR_ACTION_SETDEFAULT ||
		(to_reference && constraint->fk_upd_action == FKCONSTR_ACTION_CASCADE);

	if (sets && has_key_column(state->table->relid, constraint->fk_del_set_cols ? constraint->fk_del_set_cols : constraint->fk_attrs))
		shard_ddl_table_refuse(state->table, psprintf("a foreign key with ON DELETE %s of the shard key", action_text(constraint->fk_del_action)),
							   psprintf("Name the columns that it sets, and not the shard key: ON DELETE %s (column).", action_text(constraint->fk_del_action)));
	if (follows && has_key_column(state->table->relid, constraint->fk_attrs))
		shard_ddl_table_refuse(state->table, "a foreign key that changes the shard key ON UPDATE", "Leave ON UPDATE out, or let it be RESTRICT.");
}

void
shard_alter_check_all_shards(const ShardAlterState *state, const char *what, const char *hint)
{
	foreach_oid(memberid, find_all_inheritors(state->table->relid, NoLock, NULL))
	{
		if (get_rel_relkind(memberid) == RELKIND_RELATION && !state->table->is_reference)
			shard_ddl_table_refuse(state->table,
								   psprintf("%s while partition \"%s\" is not a shard", what, get_rel_name(memberid)),
								   hint);
	}
}

/*
 * Raises an error if the shards already have such a foreign key, which the coordinator does not show.  A session that
 * follows another coordinator leaves this to that coordinator, which may already have dropped the key on the nodes.
 */
static void
check_no_foreign_key(const ShardAlterState *state, const Constraint *constraint, const char *referenced, char **names, List *columns)
{
	char	   *found = shard_guc_follows_coordinator ? NULL :
		shard_ddl_find_foreign_key(state->table, referenced, names, constraint->fk_attrs, columns);

	if (found == NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("sharded table \"%s\" has this foreign key already: constraint \"%s\"", state->table->name, found),
			 errdetail("Foreign keys of sharded tables are constraints of their shards, and not in pg_constraint here."),
			 errhint("To replace it, drop it in the same statement: DROP CONSTRAINT %s.", quote_identifier(found))));
}

void
shard_alter_foreign_key(ShardAlterState *state, Constraint *constraint)
{
	Oid			referenced = RangeVarGetRelid(constraint->pktable, AccessShareLock, false);
	List	   *columns = constraint->pk_attrs ? constraint->pk_attrs : shard_alter_primary_key(referenced);
	StringInfoData before;
	StringInfoData after;
	char	  **names = NULL;

	if (shard_constraint_with_period(constraint))
		shard_ddl_table_refuse(state->table, "a foreign key with PERIOD", NULL);
	check_references_right(referenced, columns);
	shard_alter_check_all_shards(state, "a foreign key", "Add it to the partitions one by one.");
	if (constraint->fk_del_action == FKCONSTR_ACTION_SETDEFAULT || constraint->fk_upd_action == FKCONSTR_ACTION_SETDEFAULT)
	{
		/* a partition may have other defaults on the coordinator than its table, but its shards have only one */
		if (get_rel_relispartition(state->table->relid))
			shard_ddl_table_refuse(state->table, "a foreign key with SET DEFAULT of a partition alone", "Add it to the table that it is a partition of.");
		state->sets_defaults = true;
	}
	if (constraint->conname == NULL)
		constraint->conname = shard_alter_choose_name(state, constraint->fk_attrs, "fkey");
	if (!shard_reference_is(referenced))
		names = referenced_shards(state, referenced, constraint, columns);
	if (!shard_alter_is_at_home(state->table->relid))
		check_actions(state, constraint, names == NULL);
	check_no_foreign_key(state, constraint, names != NULL ? NULL :
						 shard_qualified_relation(referenced),
						 names, columns);
	if (names != NULL && (has_action(constraint->fk_del_action) || has_action(constraint->fk_upd_action)))
		shard_ddl_check_actions(state->table, names);

	initStringInfo(&before);
	initStringInfo(&after);
	appendStringInfo(&before, "ADD CONSTRAINT %s FOREIGN KEY (%s) REFERENCES ",
					 quote_identifier(constraint->conname), shard_alter_quoted_columns(constraint->fk_attrs));
	if (names == NULL)
		appendStringInfoString(&before, shard_qualified_relation(referenced));
	if (columns != NIL)
		appendStringInfo(&after, " (%s)", shard_alter_quoted_columns(columns));
	appendStringInfo(&after, " MATCH %s ON UPDATE %s ON DELETE %s",
					 constraint->fk_matchtype == FKCONSTR_MATCH_FULL ? "FULL" :
					 constraint->fk_matchtype == FKCONSTR_MATCH_PARTIAL ? "PARTIAL" : "SIMPLE",
					 action_text(constraint->fk_upd_action), action_text(constraint->fk_del_action));
	if (constraint->fk_del_set_cols != NIL)
		appendStringInfo(&after, " (%s)", shard_alter_quoted_columns(constraint->fk_del_set_cols));
	if (constraint->deferrable)
		appendStringInfo(&after, " DEFERRABLE INITIALLY %s", constraint->initdeferred ? "DEFERRED" : "IMMEDIATE");
	if (shard_constraint_not_enforced(constraint))
		appendStringInfoString(&after, " NOT ENFORCED");
	else if (constraint->skip_validation)
		appendStringInfoString(&after, " NOT VALID");
	shard_alter_piece(state, before.data, names, after.data);
}

/*
 * ADD CONSTRAINT
 */

/*
 * Sets a primary key's columns NOT NULL in all partitions, before the key is added to the parent only, or to the
 * shard.
 */
void
shard_alter_key_not_null(ShardAlterState *state, Constraint *constraint)
{
	foreach_node(String, column, constraint->keys)
	{
		HeapTuple	tuple = SearchSysCacheAttName(state->table->relid, strVal(column));
		/* also for a column that this statement adds; core raises an error for a missing column */
		bool		is_null = !HeapTupleIsValid(tuple) || !((Form_pg_attribute) GETSTRUCT(tuple))->attnotnull;
		AlterTableCmd *cmd;

		if (HeapTupleIsValid(tuple))
			ReleaseSysCache(tuple);
		if (!is_null)
			continue;
		cmd = makeNode(AlterTableCmd);
		cmd->subtype = AT_SetNotNull;
		cmd->name = pstrdup(strVal(column));
		state->local = lappend(state->local, cmd);
	}
}

/* Notes a key of a reference table that takes over an index, so that its replicas do the same. */
static void
note_index_key(ShardAlterState *state, Constraint *constraint)
{
	state->index_keys = lappend(state->index_keys, constraint);
	if (constraint->deferrable)
		state->drop_indexes = lappend(state->drop_indexes, constraint->indexname);
}

/* The original name of the index that a new constraint has taken over; NULL if the constraint has made a new index. */
static const char *
index_taken_over(const ShardAlterState *state, const char *name)
{
	foreach_ptr(const Constraint, constraint, state->index_keys)
	{
		if (strcmp(constraint->conname ? constraint->conname : constraint->indexname, name) == 0)
			return constraint->indexname;
	}
	return NULL;
}

void
shard_alter_add_constraint(ShardAlterState *state, AlterTableCmd *cmd)
{
	Constraint *constraint = castNode(Constraint, cmd->def);
	bool		is_reference = state->table->is_reference;

	switch (constraint->contype)
	{
		case CONSTR_PRIMARY:
		case CONSTR_UNIQUE:
			if (constraint->indexname != NULL && !is_reference)
				shard_ddl_table_refuse(state->table, "ADD CONSTRAINT USING INDEX", "Add the key, and drop the index.");
			if (constraint->indexspace != NULL && !is_reference)
				shard_ddl_table_refuse(state->table, "USING INDEX TABLESPACE", NULL);
			if (is_reference)
			{
				if (constraint->indexname != NULL)
					note_index_key(state, constraint);
				break;
			}
			if (constraint->contype == CONSTR_PRIMARY)
				shard_alter_key_not_null(state, constraint);
			if (shard_alter_home_key(state, constraint))
				return;
			state->markers = lappend(state->markers, cmd);
			return;
		case CONSTR_EXCLUSION:
			if (!is_reference)
				shard_ddl_table_refuse(state->table, "an exclusion constraint", "It cannot be checked across nodes.");
			break;
		case CONSTR_FOREIGN:
			if (is_reference)
				break;
			shard_alter_foreign_key(state, constraint);
			return;
		case CONSTR_NOTNULL:
			/* from 18 on; nodes may be older, and their constraints have other names */
			if (constraint->skip_validation)
				shard_ddl_table_refuse(state->table, "NOT NULL NOT VALID", NULL);
			shard_alter_piece(state, psprintf("ALTER COLUMN %s SET NOT NULL",
											  quote_identifier(strVal(linitial(constraint->keys)))), NULL, NULL);
			break;
		default:
			break;
	}
	state->local = lappend(state->local, cmd);
}

typedef struct NewConstraints
{
	ShardAlterState *state;
	ShardDdlBatch *batch;
} NewConstraints;

/* Names for the index of a new key.  NULL for shards that already have the index through their own parent. */
static char **
new_key_names(ShardAlterState *state, Form_pg_constraint constraint)
{
	char	  **names = quoted_names(state->table, NameStr(constraint->conname));
	const bool *has = state->only_at_home ? shard_ddl_find_equal_index(state->table, constraint->conindid) : NULL;

	for (int i = 0; i < state->table->nshards && !state->table->is_reference; i++)
		if (shard_marker_level_had(state->table->shards[i].relid, constraint->conindid, state->indexes) ||
			(has != NULL && has[i]))
			names[i] = NULL;
	return names;
}

/* Sends a plain index, which replicas of a reference table have instead of the constraint. */
static void
send_plain_index(NewConstraints *new, Form_pg_constraint constraint)
{
	shard_ddl_batch_add_all(new->batch,
							psprintf("CREATE INDEX %s ON ", quote_identifier(NameStr(constraint->conname))),
							psprintf(" USING %s", shard_ddl_text_index(constraint->conindid)));
}

/*
 * Adds a CHECK constraint.  Shards keep an equal constraint: a dump adds constraints that are not valid or not
 * enforced separately.
 */
static void
send_check(ShardAlterState *state, const char *name, const char *definition)
{
	char	  **found = shard_ddl_find_check(state->table, name, definition);

	for (int i = 0; i < state->table->nshards; i++)
		found[i] = found[i] != NULL ? NULL : pstrdup(quote_identifier(name));
	shard_alter_piece(state, pstrdup("ADD CONSTRAINT "), found, psprintf(" %s", definition));
}

static void
send_new(Form_pg_constraint constraint, void *arg)
{
	ShardAlterState *state = ((NewConstraints *) arg)->state;
	const char *name = NameStr(constraint->conname);

	if (is_noted(state, name))
		return;
	switch (constraint->contype)
	{
		case CONSTRAINT_CHECK:
			send_check(state, name, shard_ddl_text_constraint(constraint->oid));
			break;
		case CONSTRAINT_PRIMARY:
		case CONSTRAINT_UNIQUE:
			if (state->table->is_reference && constraint->condeferrable)
				send_plain_index(arg, constraint);
			else if (index_taken_over(state, name) != NULL)
				shard_alter_piece(state, psprintf("ADD CONSTRAINT %s %s USING INDEX %s", quote_identifier(name),
												  constraint->contype == CONSTRAINT_PRIMARY ? "PRIMARY KEY" : "UNIQUE",
												  quote_identifier(index_taken_over(state, name))), NULL, NULL);
			else
				shard_alter_piece(state, pstrdup("ADD CONSTRAINT "), new_key_names(state, constraint),
								  psprintf(" %s", shard_ddl_text_constraint(constraint->oid)));
			break;
		case CONSTRAINT_EXCLUSION:
			send_plain_index(arg, constraint);
			break;
		default:
			break;
	}
}

void
shard_alter_new_constraints(ShardAlterState *state, ShardDdlBatch *batch)
{
	NewConstraints arg = {state, batch};

	each_constraint(state->table->relid, send_new, &arg);
}

/* Markers during a change of a column's type */

/* Does the marker depend on a column whose type changes? */
static bool
is_marker_of(ShardAlterState *state, Form_pg_index index, bool has_expressions)
{
	if (!index->indisunique || index->indisvalid)
		return false;
	foreach_ptr(ShardAlterColumn, column, state->columns)
	{
		/* the order of columns may differ in partitions */
		AttrNumber	attno = get_attnum(index->indrelid, column->name);

		if (column->subtype != AT_AlterColumnType)
			continue;
		for (int i = 0; i < index->indnatts; i++)
			if (has_expressions || index->indkey.values[i] == attno)
				return true;
	}
	return false;
}

/* Appends the commands that drop a marker to *drop, and those that create it again to *restore. */
static void
put_aside(Relation rel, Oid index, List **drop, List **restore)
{
	const char *relation = shard_qualified_relation(RelationGetRelid(rel));
	Oid			constraint = get_index_constraint(index);
	const char *name = quote_identifier(get_rel_name(index));
	const char *index_name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)), get_rel_name(index));
	char	   *comment = GetComment(OidIsValid(constraint) ? constraint : index,
									 OidIsValid(constraint) ? ConstraintRelationId : RelationRelationId, 0);

	if (OidIsValid(constraint))
	{
		*drop = lappend(*drop, psprintf("ALTER TABLE ONLY %s DROP CONSTRAINT %s", relation, name));
		*restore = lappend(*restore, psprintf("ALTER TABLE ONLY %s ADD CONSTRAINT %s %s", relation, name,
											  shard_ddl_text_constraint(constraint)));
		if (comment)
			*restore = lappend(*restore, psprintf("COMMENT ON CONSTRAINT %s ON %s IS %s", name, relation,
												  quote_literal_cstr(comment)));
	}
	else
	{
		*drop = lappend(*drop, psprintf("DROP INDEX %s", index_name));
		*restore = lappend(*restore, psprintf("CREATE UNIQUE INDEX %s ON ONLY %s USING %s", name, relation,
											  shard_ddl_text_index(index)));
		if (comment)
			*restore = lappend(*restore, psprintf("COMMENT ON INDEX %s IS %s", index_name, quote_literal_cstr(comment)));
	}
}

/*
 * Drops the markers before the change, because core would rebuild them for all partitions and fail.  Dropping a
 * marker also drops its parts on lower levels.  Returns the commands that create them again.
 */
List *
shard_alter_put_keys_aside(ShardAlterState *state)
{
	List	   *drop = NIL;
	List	   *restore = NIL;
	int			nestlevel = shard_print_settings_begin();

	foreach_oid(index, state->indexes)
	{
		HeapTuple	tuple = shard_catalog_row(INDEXRELID, index);
		bool		has_expressions = !heap_attisnull(tuple, Anum_pg_index_indexprs, NULL) ||
			!heap_attisnull(tuple, Anum_pg_index_indpred, NULL);

		if (!get_rel_relispartition(index) && is_marker_of(state, (Form_pg_index) GETSTRUCT(tuple), has_expressions))
		{
			Relation	rel = table_open(((Form_pg_index) GETSTRUCT(tuple))->indrelid, NoLock);

			put_aside(rel, index, &drop, &restore);
			table_close(rel, NoLock);
		}
		ReleaseSysCache(tuple);
	}
	shard_print_settings_end(nestlevel);
	shard_ddl_run_here(drop);
	return restore;
}

/*
 * DROP and VALIDATE CONSTRAINT, CLUSTER ON
 */

/* Column of a NOT NULL constraint. */
static char *
first_column(Oid constraint, Oid relid)
{
	HeapTuple	tuple = shard_catalog_row(CONSTROID, constraint);
	bool		isnull;
	Datum		columns = SysCacheGetAttr(CONSTROID, tuple, Anum_pg_constraint_conkey, &isnull);
	char	   *name;

	if (isnull)
		elog(ERROR, "constraint %u has no columns", constraint);
	name = get_attname(relid, ((int16 *) ARR_DATA_PTR(DatumGetArrayTypeP(columns)))[0], false);
	ReleaseSysCache(tuple);
	return name;
}

void
shard_alter_drop_constraint(ShardAlterState *state, AlterTableCmd *cmd)
{
	ShardDdlTable *table = state->table;
	Form_pg_constraint found = shard_ddl_constraint(table->relid, cmd->name);
	const char *cascade = cmd->behavior == DROP_CASCADE ? " CASCADE" : "";
	/* IF EXISTS: an earlier sub-command may have dropped it */
	const char *drop = cmd->missing_ok ? "DROP CONSTRAINT IF EXISTS " : "DROP CONSTRAINT ";
	char	   *same = psprintf("%s%s%s", drop, quote_identifier(cmd->name), cascade);

	if (found == NULL && !table->is_reference && shard_ddl_find_shard_constraint(table, cmd->name))
	{
		shard_alter_piece(state, same, NULL, NULL);
		return;
	}
	state->local = lappend(state->local, cmd);
	/* the node may have a foreign key that the transaction's snapshot does not show */
	if (found == NULL && !table->is_reference && cmd->missing_ok && IsolationUsesXactSnapshot())
		shard_alter_piece(state, same, NULL, NULL);
	if (found == NULL)
		return;					/* core raises an error, or reports that it skips the constraint */

	if (found->contype == CONSTRAINT_CHECK)
		shard_alter_piece(state, same, NULL, NULL);
	else if (found->contype == SHARD_CONSTRAINT_NOTNULL)
		shard_alter_piece(state, psprintf("ALTER COLUMN %s DROP NOT NULL",
										  quote_identifier(first_column(found->oid, table->relid))), NULL, NULL);
	else if (table->is_reference && (found->contype == CONSTRAINT_EXCLUSION || (OidIsValid(found->conindid) && found->condeferrable)))
		state->drop_indexes = lappend(state->drop_indexes, pstrdup(cmd->name));
	else if (table->is_reference && found->contype != CONSTRAINT_FOREIGN)
		shard_alter_piece(state, same, NULL, NULL);
	else if (!table->is_reference && OidIsValid(found->conindid))
		shard_alter_piece(state, pstrdup(drop),
						  quote_names(table, shard_ddl_find_index(table, found->conindid)), pstrdup(cascade));
}

void
shard_alter_validate_constraint(ShardAlterState *state, AlterTableCmd *cmd)
{
	Form_pg_constraint found = shard_ddl_constraint(state->table->relid, cmd->name);
	char	   *text = psprintf("VALIDATE CONSTRAINT %s", quote_identifier(cmd->name));

	/* the coordinator that a session follows has perhaps not yet added it on the nodes, and raises the error */
	if (found == NULL && !state->table->is_reference &&
		(shard_guc_follows_coordinator || shard_ddl_find_shard_constraint(state->table, cmd->name)))
	{
		shard_alter_piece(state, text, NULL, NULL);
		return;
	}
	if (found != NULL && found->contype == CONSTRAINT_CHECK)
		shard_alter_piece(state, text, NULL, NULL);
	state->local = lappend(state->local, cmd);
}

void
shard_alter_cluster_on(ShardAlterState *state, AlterTableCmd *cmd)
{
	Oid			index = get_relname_relid(cmd->name, get_rel_namespace(state->table->relid));

	if (state->table->is_reference || !OidIsValid(index))
	{
		/* core raises an error if there is none */
		state->local = lappend(state->local, cmd);
		if (OidIsValid(index))
			shard_alter_piece(state, psprintf("CLUSTER ON %s", quote_identifier(cmd->name)), NULL, NULL);
		return;
	}
	/* core does not allow CLUSTER ON for a partitioned table, so only the shards get it */
	shard_alter_piece(state, pstrdup("CLUSTER ON "),
					  quote_names(state->table, shard_ddl_find_index(state->table, index)), pstrdup(""));
}
