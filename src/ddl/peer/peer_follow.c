/*
 * peer_follow.c
 *	  Which statements change definitions that all coordinators have.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "compat.h"
#include "ddl/peer/peer_follow.h"
#include "nodes/parsenodes.h"
#include "own_schema.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"

/* Is the schema of a name, as it was written, the one for temporary objects? */
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

/* Is it a relation of this session, or will it be one? */
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

/* The same for a new one, whose name may be taken by a temporary one. */
static bool
is_new_temporary(const RangeVar *relation)
{
	return relation->relpersistence == RELPERSISTENCE_TEMP || is_temporary_schema(relation->schemaname);
}

/* The same for a new object that is no relation. */
static bool
are_temporary_names(List *names)
{
	return list_length(names) == 2 && is_temporary_schema(strVal(linitial(names)));
}

/* The same for an object by its kind and name, as the parser gives it. */
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

/* Objects of one statement go to all coordinators, or are this session's. */
static bool
are_temporary(ObjectType kind, List *objects)
{
	int			ntemporary = 0;
	ListCell   *lc;

	foreach(lc, objects)
		ntemporary += is_temporary_object(kind, lfirst(lc));
	if (ntemporary > 0 && ntemporary < list_length(objects))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot drop temporary and other objects in one statement where there are several coordinators"),
				 errhint("Use two statements.")));
	return ntemporary > 0;
}

static bool
grants_on_temporary(const GrantStmt *stmt)
{
	ListCell   *lc;

	if (stmt->targtype != ACL_TARGET_OBJECT || (stmt->objtype != OBJECT_TABLE && stmt->objtype != OBJECT_SEQUENCE))
		return false;
	foreach(lc, stmt->objects)
		if (!is_temporary(lfirst_node(RangeVar, lc)))
			return false;
	return true;
}

/* Is it about objects that belong to the whole server? */
static bool
is_of_server(ObjectType kind)
{
	return kind == OBJECT_DATABASE || kind == OBJECT_ROLE || kind == OBJECT_TABLESPACE || kind == OBJECT_PARAMETER_ACL ||
		kind == OBJECT_SUBSCRIPTION || kind == OBJECT_PUBLICATION || kind == OBJECT_PUBLICATION_REL ||
		kind == OBJECT_PUBLICATION_NAMESPACE || kind == OBJECT_LARGEOBJECT;
}

/* This extension is installed and updated on each coordinator by itself. */
static bool
is_own_extension(const char *name)
{
	return strcmp(name, SHARD_EXTENSION) == 0;
}

static bool
drops_own_extension(const DropStmt *stmt)
{
	ListCell   *lc;

	if (stmt->removeType != OBJECT_EXTENSION)
		return false;
	foreach(lc, stmt->objects)
		if (is_own_extension(strVal(lfirst(lc))))
			return true;
	return false;
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
		case T_CreateSeqStmt:
			return !is_new_temporary(castNode(CreateSeqStmt, stmt)->sequence);
		case T_ViewStmt:
			return !is_new_temporary(castNode(ViewStmt, stmt)->view);
		case T_AlterTableStmt:
			return !is_temporary(castNode(AlterTableStmt, stmt)->relation);
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
		case T_AlterDomainStmt:
		case T_AlterTypeStmt:
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
		case T_AlterStatsStmt:
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
shard_peer_is_concurrent(Node *stmt)
{
	if (IsA(stmt, IndexStmt))
		return castNode(IndexStmt, stmt)->concurrent;
	if (IsA(stmt, DropStmt))
		return castNode(DropStmt, stmt)->concurrent;
	if (IsA(stmt, AlterTableStmt))
	{
		AlterTableCmd *cmd = linitial_node(AlterTableCmd, castNode(AlterTableStmt, stmt)->cmds);

		return cmd->subtype == AT_DetachPartition && castNode(PartitionCmd, cmd->def)->concurrent;
	}
	return false;
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
	else if (shard_peer_is_concurrent(follower))
		castNode(PartitionCmd, linitial_node(AlterTableCmd, castNode(AlterTableStmt, follower)->cmds)->def)->concurrent = false;
	return follower;
}
