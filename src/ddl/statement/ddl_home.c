/*
 * ddl_home.c
 *	  Definitions in schemas whose tables are all on one node (catalog/home.h).
 *
 *	  CREATE TABLE [AS]		core makes a plain table, without foreign keys
 *								|
 *							shardfdw_internal.bring_home() makes a sharded one of it
 *								|
 *							ALTER TABLE adds the foreign keys
 */
#include "postgres.h"

#include "catalog/home.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/alter/ddl_refer.h"
#include "ddl/peer/peer_send.h"
#include "ddl/schema_lock.h"
#include "ddl/statement/ddl_home.h"
#include "ddl/statement/ddl_statement.h"
#include "guc.h"
#include "nodes/makefuncs.h"
#include "own_schema.h"
#include "own_sql.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"

typedef struct NewTable
{
	Oid			namespace;
	char	   *name;
	bool		existed;		/* before the statement */
	List	   *foreign_keys;	/* of Constraint, in the form for ALTER TABLE */
	ShardDdlCall *call;
} NewTable;

/* Removes the foreign keys from a column's constraints and returns them. */
static List *
take_column_keys(ColumnDef *def, List *foreign_keys)
{
	List	   *kept = NIL;
	ListCell   *next = list_head(def->constraints);

	while (next != NULL)
	{
		Constraint *constraint = lfirst_node(Constraint, next);

		next = lnext(def->constraints, next);
		if (constraint->contype != CONSTR_FOREIGN)
		{
			kept = lappend(kept, constraint);
			continue;
		}
		next = shard_alter_take_attributes(constraint, def->constraints, next);
		constraint->fk_attrs = list_make1(makeString(def->colname));
		foreign_keys = lappend(foreign_keys, constraint);
	}
	def->constraints = kept;
	return foreign_keys;
}

/* Removes the foreign keys from the statement and returns them. */
static List *
take_foreign_keys(CreateStmt *stmt)
{
	List	   *kept = NIL;
	List	   *foreign_keys = NIL;

	foreach_ptr(Node, element, stmt->tableElts)
	{
		if (IsA(element, Constraint) && ((Constraint *) element)->contype == CONSTR_FOREIGN)
		{
			foreign_keys = lappend(foreign_keys, element);
			continue;
		}
		if (IsA(element, ColumnDef))
			foreign_keys = take_column_keys((ColumnDef *) element, foreign_keys);
		kept = lappend(kept, element);
	}
	stmt->tableElts = kept;
	return foreign_keys;
}

static void
bring_home(Oid relid)
{
	(void) shard_own_sql_rows(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".bring_home(%u)", relid), InvalidSnapshot);
}

static void
add_foreign_keys(NewTable *new)
{
	AlterTableStmt *stmt = makeNode(AlterTableStmt);
	PlannedStmt *wrapper = makeNode(PlannedStmt);

	stmt->relation = makeRangeVar(get_namespace_name(new->namespace), new->name, -1);
	stmt->objtype = OBJECT_TABLE;
	foreach_ptr(Node, key, new->foreign_keys)
	{
		AlterTableCmd *cmd = makeNode(AlterTableCmd);

		cmd->subtype = AT_AddConstraint;
		cmd->def = key;
		stmt->cmds = lappend(stmt->cmds, cmd);
	}
	wrapper->commandType = CMD_UTILITY;
	wrapper->utilityStmt = (Node *) stmt;
	wrapper->stmt_location = new->call->pstmt->stmt_location;
	wrapper->stmt_len = new->call->pstmt->stmt_len;
	ProcessUtility(wrapper, new->call->query_string, false, PROCESS_UTILITY_QUERY, NULL, NULL, None_Receiver, NULL);
}

/* The work after core has made the table. */
static void
create_rest(void *arg)
{
	NewTable   *new = arg;
	Oid			relid = get_relname_relid(new->name, new->namespace);
	ShardPeerStatement *sent;

	/* IF NOT EXISTS of a table that another session has made, or EXPLAIN without ANALYZE */
	if (new->existed || !OidIsValid(relid) || shard_map_get(relid) != NULL)
		return;
	/* a session that follows another coordinator gets each step separately */
	if (shard_guc_follows_coordinator)
		return;
	sent = shard_peer_part_begin();
	bring_home(relid);
	shard_peer_part_end(sent);
	if (new->foreign_keys != NIL)
		add_foreign_keys(new);
}

/*
 * The schema with a home in which relation will be made, or InvalidOid.  The home stays on its node until the
 * transaction ends.
 */
static Oid
home_of_new(RangeVar *relation)
{
	Oid			namespace = relation->relpersistence == RELPERSISTENCE_TEMP ? InvalidOid :
		RangeVarGetCreationNamespace(relation);
	Oid			home = OidIsValid(namespace) ? shard_home_table(namespace) : InvalidOid;
	const ShardMap *map;

	if (!OidIsValid(home))
		return InvalidOid;
	LockRelationOid(home, AccessShareLock);
	/* restoring a dump makes tables before their shards */
	map = shard_home_table(namespace) == home ? shard_map_get(home) : NULL;
	if (map == NULL)
		return InvalidOid;
	(void) shard_map_lock(map, 0, RowShareLock);
	return namespace;
}

static bool
create(ShardDdlCall *call, RangeVar *relation, Oid namespace, Node *stmt, List *foreign_keys)
{
	NewTable   *new = palloc0(sizeof(NewTable));

	new->namespace = namespace;
	new->name = relation->relname;
	new->existed = OidIsValid(get_relname_relid(relation->relname, namespace));
	new->foreign_keys = foreign_keys;
	new->call = call;
	shard_ddl_run_core_then(call, stmt, create_rest, new);
	return true;
}

bool
shard_ddl_create_table(ShardDdlCall *call)
{
	CreateStmt *stmt = castNode(CreateStmt, call->pstmt->utilityStmt);
	Oid			namespace = home_of_new(stmt->relation);

	if (!OidIsValid(namespace))
	{
		shard_ddl_check_new_table(stmt);
		return false;
	}
	stmt = copyObject(stmt);
	return create(call, stmt->relation, namespace, (Node *) stmt, take_foreign_keys(stmt));
}

bool
shard_ddl_create_table_as(ShardDdlCall *call)
{
	CreateTableAsStmt *stmt = castNode(CreateTableAsStmt, call->pstmt->utilityStmt);
	Oid			namespace = stmt->objtype == OBJECT_TABLE ? home_of_new(stmt->into->rel) : InvalidOid;

	return OidIsValid(namespace) && create(call, stmt->into->rel, namespace, NULL, NIL);
}

bool
shard_ddl_explain(ShardDdlCall *call)
{
	RangeVar   *relation = shard_schema_new_table(call->pstmt->utilityStmt);
	Oid			namespace = relation != NULL ? home_of_new(relation) : InvalidOid;

	/* with ANALYZE it makes the table */
	return OidIsValid(namespace) && create(call, relation, namespace, NULL, NIL);
}

/* ---------- refused statements ---------- */

/*
 * Only the owner of a schema may choose the node of its tables.  Other users would choose it for the tables of
 * others.
 */
static void
check_may_make_home(const char *name, Oid namespace)
{
	if (strcmp(name, SHARD_HOME_TABLE) == 0 && OidIsValid(namespace) && !shard_namespace_ownercheck(namespace, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of schema %s to make table \"%s\"", get_namespace_name(namespace), name)));
}

/*
 * The table whose schema changes, and the new schema.  Returns false for other statements, and if core skips the
 * statement.  Raises core's errors for objects that do not exist, since an object may appear before core looks it up.
 */
static bool
changes_schema(Node *stmt, Oid *relid, Oid *newspace)
{
	AlterObjectSchemaStmt *move = (AlterObjectSchemaStmt *) stmt;

	if (!IsA(stmt, AlterObjectSchemaStmt) || (move->objectType != OBJECT_TABLE && move->objectType != OBJECT_FOREIGN_TABLE))
		return false;
	*relid = RangeVarGetRelid(move->relation, NoLock, move->missing_ok);
	if (!OidIsValid(*relid))
		return false;
	*newspace = get_namespace_oid(move->newschema, false);
	return true;
}

/* The table that is renamed, or NULL. */
static RangeVar *
renamed_table(Node *stmt)
{
	RenameStmt *rename = (RenameStmt *) stmt;

	return IsA(stmt, RenameStmt) && (rename->renameType == OBJECT_TABLE || rename->renameType == OBJECT_FOREIGN_TABLE) ? rename->relation : NULL;
}

void
shard_ddl_home_check_maker(Node *stmt)
{
	Oid			relid;
	Oid			namespace;

	if (IsA(stmt, CreateStmt) && strcmp(castNode(CreateStmt, stmt)->relation->relname, SHARD_HOME_TABLE) == 0)
		check_may_make_home(SHARD_HOME_TABLE, RangeVarGetCreationNamespace(castNode(CreateStmt, stmt)->relation));
	else if (changes_schema(stmt, &relid, &namespace))
		check_may_make_home(get_rel_name(relid), namespace);
	else if (renamed_table(stmt) != NULL)
	{
		relid = RangeVarGetRelid(renamed_table(stmt), NoLock, true);
		check_may_make_home(castNode(RenameStmt, stmt)->newname, OidIsValid(relid) ? get_rel_namespace(relid) : InvalidOid);
	}
}

/* Raises an error if a table would leave or enter a schema at home. */
static void
check_set_schema(AlterObjectSchemaStmt *stmt)
{
	Oid			relid;
	Oid			namespace;
	Oid			newspace;

	if (!changes_schema((Node *) stmt, &relid, &newspace))
		return;
	namespace = get_rel_namespace(relid);
	if (namespace != newspace && (OidIsValid(shard_home_table(namespace)) || OidIsValid(shard_home_table(newspace))))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot move table \"%s\" to another schema because all tables of schema \"%s\" are on one node",
						get_rel_name(relid), OidIsValid(shard_home_table(namespace)) ? get_namespace_name(namespace) : stmt->newschema),
				 errhint("Make a new table there, and copy the rows.")));
}

/*
 * Raises an error if a schema at home would lose the table that defines its node. all: also for other tables of the
 * schema.
 */
static void
check_keeps_home(RangeVar *relation, bool all)
{
	Oid			relid = RangeVarGetRelid(relation, NoLock, true);
	Oid			home = OidIsValid(relid) ? shard_home_table(get_rel_namespace(relid)) : InvalidOid;

	if (!OidIsValid(home) || (all && get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE))
		return;
	if (relid == home || (get_rel_relispartition(relid) && get_partition_parent(relid, true) == home))
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("table \"%s\" says where the tables of schema \"%s\" are", get_rel_name(relid),
						get_namespace_name(get_rel_namespace(relid))),
				 errhint("It goes with the schema, or by SELECT shardfdw.unshard_schema(%s).",
						 quote_literal_cstr(quote_identifier(get_namespace_name(get_rel_namespace(relid)))))));
	if (all)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change the partitions of table \"%s\" because all tables of schema \"%s\" are on one node",
						get_rel_name(relid), get_namespace_name(get_rel_namespace(relid)))));
}

/* Has the table a partition?  Restoring a dump attaches the shard to a table without partitions. */
static bool
has_partition(RangeVar *relation)
{
	Oid			relid = RangeVarGetRelid(relation, NoLock, true);

	return OidIsValid(relid) && find_inheritance_children(relid, NoLock) != NIL;
}

void
shard_ddl_home_check(Node *stmt)
{
	if (IsA(stmt, AlterObjectSchemaStmt))
		check_set_schema(castNode(AlterObjectSchemaStmt, stmt));
	else if (renamed_table(stmt) != NULL)
		check_keeps_home(renamed_table(stmt), false);
	else if (IsA(stmt, AlterTableStmt))
	{
		AlterTableType subtype = linitial_node(AlterTableCmd, castNode(AlterTableStmt, stmt)->cmds)->subtype;

		if (subtype == AT_DetachPartition || (subtype == AT_AttachPartition && has_partition(castNode(AlterTableStmt, stmt)->relation)))
			check_keeps_home(castNode(AlterTableStmt, stmt)->relation, true);
	}
}
