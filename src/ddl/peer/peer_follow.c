/*
 * peer_follow.c
 *	  Finds the statements that change definitions on all coordinators.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/node_list.h"
#include "catalog/objectaddress.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "catalog/qualified.h"
#include "catalog/reference.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "compat.h"
#include "ddl/ddl_table.h"
#include "ddl/ddl_text.h"
#include "ddl/peer/peer_follow.h"
#include "ddl/schema_lock.h"
#include "deparse/print_settings.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "own_schema.h"
#include "parser/parse_type.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Does a schema name, as written in the statement, mean the schema for temporary objects? */
static bool
is_temporary_schema(const char *schema)
{
	Oid			namespace;

	if (schema == NULL)
		return false;
	if (strcmp(schema, "pg_temp") == 0)
		return true;
	namespace = get_namespace_oid(schema, true);
	return OidIsValid(namespace) && isAnyTempNamespace(namespace);
}

/* Is it, or will it be, a temporary relation of this session? */
static bool
is_temporary(const RangeVar *relation)
{
	Oid			relid;

	if (relation == NULL)
		return false;
	if (relation->relpersistence == RELPERSISTENCE_TEMP || is_temporary_schema(relation->schemaname))
		return true;
	if (relation->schemaname != NULL)
		return false;
	relid = RangeVarGetRelid(relation, NoLock, true);
	return OidIsValid(relid) && isAnyTempNamespace(get_rel_namespace(relid));
}

/* The same for a new relation, whose name a temporary relation may have. */
static bool
is_new_temporary(const RangeVar *relation)
{
	return relation->relpersistence == RELPERSISTENCE_TEMP || is_temporary_schema(relation->schemaname) ||
		isAnyTempNamespace(RangeVarGetCreationNamespace(relation));
}

/* The same for a new object that is not a relation. */
static bool
are_temporary_names(List *names)
{
	char	   *name;

	return isAnyTempNamespace(QualifiedNameGetCreationNamespace(names, &name));
}

/* Is it a temporary type of this session?  Names of types are lists or TypeName nodes. */
static bool
is_temporary_type(Node *object)
{
	TypeName   *name = IsA(object, List) ? makeTypeNameFromNameList((List *) object) : castNode(TypeName, object);

	return isAnyTempNamespace(DatumGetObjectId(shard_catalog_value(TYPEOID, LookupTypeNameOid(NULL, name, true), Anum_pg_type_typnamespace)));
}

static bool
is_temporary_statistics(List *names)
{
	Oid			statistics = get_statistics_object_oid(names, true);

	return isAnyTempNamespace(DatumGetObjectId(shard_catalog_value(STATEXTOID, statistics, Anum_pg_statistic_ext_stxnamespace)));
}

/* The same for an object as the parser returns it: object type and name. */
static bool
is_temporary_object(ObjectType kind, Node *object)
{
	Relation	rel = NULL;
	ObjectAddress address = InvalidObjectAddress;
	Oid			namespace = InvalidOid;

	switch (kind)
	{
		case OBJECT_TABLE:
		case OBJECT_FOREIGN_TABLE:
		case OBJECT_VIEW:
		case OBJECT_MATVIEW:
		case OBJECT_INDEX:
		case OBJECT_SEQUENCE:
			return is_temporary(makeRangeVarFromNameList(castNode(List, object)));
		case OBJECT_COLUMN:
		case OBJECT_TRIGGER:
		case OBJECT_RULE:
		case OBJECT_POLICY:
		case OBJECT_TABCONSTRAINT:
			{
				List	   *names = list_truncate(list_copy(castNode(List, object)), list_length((List *) object) - 1);

				return names != NIL && is_temporary(makeRangeVarFromNameList(names));
			}
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
			return is_temporary_type(object);
		case OBJECT_STATISTIC_EXT:
			return is_temporary_statistics(castNode(List, object));
		case OBJECT_FUNCTION:
		case OBJECT_PROCEDURE:
		case OBJECT_ROUTINE:
		case OBJECT_AGGREGATE:
			address = get_object_address(kind, object, &rel, AccessShareLock, true);
			break;
		default:
			return false;
	}
	if (rel != NULL)
		relation_close(rel, NoLock);
	if (OidIsValid(address.objectId))
		namespace = get_object_namespace(&address);
	return OidIsValid(namespace) && isAnyTempNamespace(namespace);
}

/* Are there other coordinators? */
static bool
has_peers(void)
{
	int			nbefore;

	return shard_node_peers(&nbefore) != NIL;
}

/* All objects of a statement must be temporary, or none. */
static bool
are_temporary(ObjectType kind, List *objects)
{
	int			ntemporary = 0;

	foreach_ptr(Node, object, objects)
		ntemporary += is_temporary_object(kind, object);
	if (ntemporary > 0 && ntemporary < list_length(objects) && has_peers())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot drop temporary and other objects in one statement where there are several coordinators"),
				 errhint("Use two statements.")));
	return ntemporary > 0;
}

static bool
grants_on_temporary(const GrantStmt *stmt)
{
	if (stmt->targtype != ACL_TARGET_OBJECT)
		return false;
	foreach_ptr(Node, object, stmt->objects)
	{
		if (IsA(object, RangeVar) ? !is_temporary((RangeVar *) object) :
			IsA(object, ObjectWithArgs) ? !is_temporary_object(stmt->objtype, object) :
			(stmt->objtype != OBJECT_TYPE && stmt->objtype != OBJECT_DOMAIN) || !is_temporary_type(object))
			return false;
	}
	return true;
}

/* Is the kind of object shared by the whole server? */
static bool
is_of_server(ObjectType kind)
{
	return kind == OBJECT_DATABASE || kind == OBJECT_ROLE || kind == OBJECT_TABLESPACE || kind == OBJECT_PARAMETER_ACL ||
		kind == OBJECT_SUBSCRIPTION || kind == OBJECT_PUBLICATION || kind == OBJECT_PUBLICATION_REL ||
		kind == OBJECT_PUBLICATION_NAMESPACE || kind == OBJECT_LARGEOBJECT;
}

/* The extension is installed and updated on each coordinator separately. */
static bool
is_own_extension(const char *name)
{
	return strcmp(name, SHARD_EXTENSION) == 0;
}

static bool
drops_own_extension(const DropStmt *stmt)
{
	if (stmt->removeType != OBJECT_EXTENSION)
		return false;
	foreach_node(String, name, stmt->objects)
		if (is_own_extension(strVal(name)))
			return true;
	return false;
}

/* EXPLAIN ANALYZE creates the table.  The other coordinators would have to explain the statement too. */
static void
check_explain(ExplainStmt *stmt)
{
	RangeVar   *relation = shard_schema_new_table((Node *) stmt);

	if (relation == NULL || is_new_temporary(relation))
		return;
	foreach_node(DefElem, option, stmt->options)
	{
		if (strcmp(option->defname, "analyze") == 0 && defGetBoolean(option) && has_peers())
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("EXPLAIN ANALYZE cannot make table \"%s\" because there are several coordinators", relation->relname),
					 errhint("Explain the query, and make the table without EXPLAIN.")));
	}
}

/*
 * With CONCURRENTLY core adds a constraint to the detached partition.  A plain DETACH on the other coordinators would
 * not.
 */
static void
check_detach(AlterTableStmt *stmt)
{
	AlterTableCmd *cmd = linitial_node(AlterTableCmd, stmt->cmds);

	bool		finishes = cmd->subtype == AT_DetachPartitionFinalize;

	if ((finishes || (cmd->subtype == AT_DetachPartition && castNode(PartitionCmd, cmd->def)->concurrent)) && has_peers())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("DETACH PARTITION %s is not supported where there are several coordinators", finishes ? "FINALIZE" : "CONCURRENTLY"),
				 finishes ? errhint("Run it on each coordinator with shardfdw.enable_coordinator_propagation = off.") :
				 errhint("Leave CONCURRENTLY out.")));
}

/* A coordinator that is dropped could not get the statement. */
static void
check_dropped_servers(const DropStmt *drop)
{
	if (drop->removeType != OBJECT_FOREIGN_SERVER || !shard_node_is_member())
		return;
	foreach_node(String, server, drop->objects)
	{
		const char *name = strVal(server);
		Oid			serverid = get_foreign_server_oid(name, true);

		if (OidIsValid(serverid) && shard_node_is_coordinator(serverid))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("server \"%s\" stands for a coordinator", name),
					 errhint("Call remove_coordinator().")));
	}
}

/* The tables that the statement empties, by CASCADE, too. */
static List *
truncated_tables(TruncateStmt *stmt)
{
	List	   *relids = NIL;
	List	   *found;

	foreach_node(RangeVar, relation, stmt->relations)
	{
		Oid			relid = RangeVarGetRelid(relation, NoLock, true);

		if (OidIsValid(relid))
			relids = list_append_unique_oid(relids, relid);
		/* statements lock the sharded table, and not its shards */
		if (OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE && get_rel_relispartition(relid))
			relids = list_append_unique_oid(relids, get_partition_parent(relid, true));
	}
	while (stmt->behavior == DROP_CASCADE && (found = heap_truncate_find_FKs(relids)) != NIL)
		relids = list_concat_unique_oid(relids, found);
	return relids;
}

LockStmt *
shard_peer_locks_before(Node *stmt)
{
	LockStmt   *lock;

	if (!IsA(stmt, TruncateStmt))
		return NULL;
	lock = makeNode(LockStmt);
	lock->mode = AccessExclusiveLock;
	foreach_oid(relid, truncated_tables(castNode(TruncateStmt, stmt)))
	{
		if ((get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE && shard_ddl_table_maybe(relid)) || shard_reference_is(relid))
			lock->relations = lappend(lock->relations, makeRangeVar(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid), -1));
	}
	return lock->relations != NIL ? lock : NULL;
}

bool
shard_peer_follows(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			return !is_new_temporary(castNode(CreateStmt, stmt)->relation);
		case T_CreateForeignTableStmt:
			return !is_new_temporary(castNode(CreateForeignTableStmt, stmt)->base.relation);
		case T_CreateTableAsStmt:
			return !is_new_temporary(castNode(CreateTableAsStmt, stmt)->into->rel);
		case T_ExplainStmt:
			check_explain(castNode(ExplainStmt, stmt));
			return false;
		case T_CreateSeqStmt:
			return !is_new_temporary(castNode(CreateSeqStmt, stmt)->sequence);
		case T_ViewStmt:
			return !is_new_temporary(castNode(ViewStmt, stmt)->view);
		case T_AlterTableStmt:
			if (is_temporary(castNode(AlterTableStmt, stmt)->relation))
				return false;
			check_detach(castNode(AlterTableStmt, stmt));
			return true;
		case T_IndexStmt:
			return !is_temporary(castNode(IndexStmt, stmt)->relation);
		case T_CreateTrigStmt:
			return !is_temporary(castNode(CreateTrigStmt, stmt)->relation);
		case T_RuleStmt:
			return !is_temporary(castNode(RuleStmt, stmt)->relation);
		case T_CreatePolicyStmt:
			return !is_temporary(castNode(CreatePolicyStmt, stmt)->table);
		case T_AlterPolicyStmt:
			return !is_temporary(castNode(AlterPolicyStmt, stmt)->table);
		case T_AlterSeqStmt:
			return !is_temporary(castNode(AlterSeqStmt, stmt)->sequence);
		case T_AlterStatsStmt:
			return !is_temporary_statistics(castNode(AlterStatsStmt, stmt)->defnames);
		case T_CreateStatsStmt:
			{
				Node	   *relation = linitial(castNode(CreateStatsStmt, stmt)->relations);

				return !IsA(relation, RangeVar) || !is_temporary((RangeVar *) relation);
			}
		case T_RenameStmt:
			{
				RenameStmt *rename = castNode(RenameStmt, stmt);

				return !is_of_server(rename->renameType) && !is_temporary(rename->relation) &&
					(rename->relation != NULL || !is_temporary_object(rename->renameType, rename->object));
			}
		case T_AlterObjectSchemaStmt:
			{
				AlterObjectSchemaStmt *move = castNode(AlterObjectSchemaStmt, stmt);

				return !is_temporary(move->relation) &&
					(move->relation != NULL || !is_temporary_object(move->objectType, move->object));
			}
		case T_AlterOwnerStmt:
			return !is_of_server(castNode(AlterOwnerStmt, stmt)->objectType) &&
				!is_temporary_object(castNode(AlterOwnerStmt, stmt)->objectType, castNode(AlterOwnerStmt, stmt)->object);
		case T_CommentStmt:
			return !is_of_server(castNode(CommentStmt, stmt)->objtype) &&
				!is_temporary_object(castNode(CommentStmt, stmt)->objtype, castNode(CommentStmt, stmt)->object);
		case T_SecLabelStmt:
			return !is_of_server(castNode(SecLabelStmt, stmt)->objtype) &&
				!is_temporary_object(castNode(SecLabelStmt, stmt)->objtype, castNode(SecLabelStmt, stmt)->object);
		case T_DropStmt:
			{
				DropStmt   *drop = castNode(DropStmt, stmt);

				check_dropped_servers(drop);
				return !is_of_server(drop->removeType) && !drops_own_extension(drop) &&
					!are_temporary(drop->removeType, drop->objects);
			}
		case T_GrantStmt:
			return !is_of_server(castNode(GrantStmt, stmt)->objtype) && !grants_on_temporary(castNode(GrantStmt, stmt));
		case T_CreateExtensionStmt:
			return !is_own_extension(castNode(CreateExtensionStmt, stmt)->extname);
		case T_AlterExtensionStmt:
			return !is_own_extension(castNode(AlterExtensionStmt, stmt)->extname);
		case T_AlterExtensionContentsStmt:
			return !is_own_extension(castNode(AlterExtensionContentsStmt, stmt)->extname);
		case T_CompositeTypeStmt:
			return !is_new_temporary(castNode(CompositeTypeStmt, stmt)->typevar);
		case T_CreateEnumStmt:
			return !are_temporary_names(castNode(CreateEnumStmt, stmt)->typeName);
		case T_CreateRangeStmt:
			return !are_temporary_names(castNode(CreateRangeStmt, stmt)->typeName);
		case T_CreateDomainStmt:
			return !are_temporary_names(castNode(CreateDomainStmt, stmt)->domainname);
		case T_DefineStmt:
			return !are_temporary_names(castNode(DefineStmt, stmt)->defnames);
		case T_CreateFunctionStmt:
			return !are_temporary_names(castNode(CreateFunctionStmt, stmt)->funcname);
		case T_AlterFunctionStmt:
			return !is_temporary_object(castNode(AlterFunctionStmt, stmt)->objtype, (Node *) castNode(AlterFunctionStmt, stmt)->func);
		case T_AlterEnumStmt:
			return !is_temporary_type((Node *) castNode(AlterEnumStmt, stmt)->typeName);
		case T_AlterDomainStmt:
			return !is_temporary_type((Node *) castNode(AlterDomainStmt, stmt)->typeName);
		case T_AlterTypeStmt:
			return !is_temporary_type((Node *) castNode(AlterTypeStmt, stmt)->typeName);
		case T_CreateCastStmt:
		case T_CreateConversionStmt:
		case T_CreateTransformStmt:
		case T_CreateOpClassStmt:
		case T_CreateOpFamilyStmt:
		case T_AlterOpFamilyStmt:
		case T_AlterOperatorStmt:
		case T_AlterTSDictionaryStmt:
		case T_AlterTSConfigurationStmt:
		case T_AlterCollationStmt:
		case T_AlterObjectDependsStmt:
		case T_CreateSchemaStmt:
		case T_CreatePLangStmt:
		case T_CreateAmStmt:
		case T_CreateEventTrigStmt:
		case T_AlterEventTrigStmt:
		case T_CreateFdwStmt:
		case T_AlterFdwStmt:
		case T_CreateForeignServerStmt:
		case T_AlterForeignServerStmt:
		case T_CreateUserMappingStmt:
		case T_AlterUserMappingStmt:
		case T_DropUserMappingStmt:
		case T_ImportForeignSchemaStmt:
		case T_AlterDefaultPrivilegesStmt:
		case T_DropOwnedStmt:
		case T_ReassignOwnedStmt:
			return true;
		default:
			return false;
	}
}

bool
shard_peer_may_have_password(Node *stmt)
{
	return IsA(stmt, CreateUserMappingStmt) || IsA(stmt, AlterUserMappingStmt);
}

static bool
is_table_of_query(Node *stmt)
{
	return IsA(stmt, CreateTableAsStmt) && castNode(CreateTableAsStmt, stmt)->objtype == OBJECT_TABLE;
}

bool
shard_peer_follows_late(Node *stmt)
{
	if (IsA(stmt, IndexStmt))
		return castNode(IndexStmt, stmt)->concurrent;
	return IsA(stmt, ViewStmt) || is_table_of_query(stmt) || (IsA(stmt, DropStmt) && castNode(DropStmt, stmt)->concurrent);
}

/* Has this transaction made the table? */
static bool
is_new(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		result = HeapTupleIsValid(tuple) && TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return result;
}

/* CREATE TABLE for a table that a query has made: columns, storage parameters and nothing else. */
static const char *
table_text(Oid relid, bool if_not_exists)
{
	Relation	rel = table_open(relid, AccessShareLock);
	int			nestlevel = shard_print_settings_begin();
	HeapTuple	tuple = shard_catalog_row(RELOID, relid);
	bool		isnull;
	Datum		options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE %sTABLE %s%s (", rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "", if_not_exists ? "IF NOT EXISTS " : "",
					 shard_qualified_relation(RelationGetRelid(rel)));
	for (AttrNumber attno = 1; attno <= RelationGetNumberOfAttributes(rel); attno++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

		appendStringInfo(&sql, "%s%s %s%s", attno > 1 ? ", " : "", quote_identifier(NameStr(att->attname)),
						 shard_ddl_text_type(att->atttypid, att->atttypmod), shard_ddl_text_collation(att->atttypid, att->attcollation));
	}
	appendStringInfo(&sql, ") USING %s", quote_identifier(get_am_name(rel->rd_rel->relam)));
	if (!isnull)
		appendStringInfo(&sql, " WITH (%s)", shard_ddl_text_options(untransformRelOptions(options), true));
	if (OidIsValid(rel->rd_rel->reltablespace))
		appendStringInfo(&sql, " TABLESPACE %s", quote_identifier(get_tablespace_name(rel->rd_rel->reltablespace)));
	ReleaseSysCache(tuple);
	shard_print_settings_end(nestlevel);
	table_close(rel, NoLock);
	return sql.data;
}

const char *
shard_peer_late_text(Node *stmt, const char *sql)
{
	RangeVar   *relation = is_table_of_query(stmt) ? castNode(CreateTableAsStmt, stmt)->into->rel :
		IsA(stmt, ViewStmt) ? castNode(ViewStmt, stmt)->view : NULL;
	Oid			relid = relation != NULL ? RangeVarGetRelid(relation, NoLock, true) : InvalidOid;

	if (relation == NULL)
		return sql;
	if (!OidIsValid(relid) || isAnyTempNamespace(get_rel_namespace(relid)))
		return NULL;
	/* IF NOT EXISTS and the table existed; or bring_home() has already sent each step */
	if (is_table_of_query(stmt) && (get_rel_relkind(relid) != RELKIND_RELATION || !is_new(relid)))
		return NULL;
	return is_table_of_query(stmt) ? table_text(relid, castNode(CreateTableAsStmt, stmt)->if_not_exists) : sql;
}

Node *
shard_peer_follower_statement(Node *stmt)
{
	Node	   *follower = copyObject(stmt);

	if (IsA(follower, CreateTableAsStmt))
		castNode(CreateTableAsStmt, follower)->into->skipData = true;
	else if (IsA(follower, IndexStmt))
		castNode(IndexStmt, follower)->concurrent = false;
	else if (IsA(follower, DropStmt))
		castNode(DropStmt, follower)->concurrent = false;
	return follower;
}
