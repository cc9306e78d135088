/*
 * definition.c
 *	  Checks commands that contain a node's definition of a constraint or an index.
 *
 * Answers of nodes are untrusted data.  If the definition of a constraint is executed on the coordinator or on
 * another node, its text must not be able to do anything else.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "sqlfunc/definition.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(shardfdw_checked_definition);

Node *
shard_definition_statement(const char *text)
{
	List	   *stmts = raw_parser(psprintf("%s; COMMIT", text), RAW_PARSE_DEFAULT);

	return list_length(stmts) == 2 && IsA(lsecond_node(RawStmt, stmts)->stmt, TransactionStmt) ? linitial_node(RawStmt, stmts)->stmt : NULL;
}

/* The constraint that the statement adds, if it does nothing else; otherwise NULL. */
static Constraint *
added_constraint(Node *stmt)
{
	AlterTableStmt *alter = (AlterTableStmt *) stmt;
	AlterTableCmd *cmd;

	if (!IsA(stmt, AlterTableStmt) || list_length(alter->cmds) != 1)
		return NULL;
	cmd = linitial_node(AlterTableCmd, alter->cmds);
	return cmd->subtype == AT_AddConstraint ? castNode(Constraint, cmd->def) : NULL;
}

/*
 * Is it a key, a foreign key, an exclusion constraint or an index?  A CHECK constraint could call any function as the
 * user.
 */
static bool
is_definition(Node *stmt)
{
	Constraint *constraint = added_constraint(stmt);

	if (constraint == NULL)
		return IsA(stmt, IndexStmt);
	switch (constraint->contype)
	{
		case CONSTR_PRIMARY:
		case CONSTR_UNIQUE:
		case CONSTR_FOREIGN:
		case CONSTR_EXCLUSION:
			return true;
		default:
			return false;
	}
}

static bool
is_foreign_key(Node *stmt)
{
	Constraint *constraint = added_constraint(stmt);

	return constraint != NULL && constraint->contype == CONSTR_FOREIGN;
}

/*
 * May the index run code of this owner?  Yes for superusers, and for the owner of its table, with whose rights the
 * code runs.
 */
static bool
may_run(Oid owner, Oid table_owner)
{
	return owner == table_owner || superuser_arg(owner);
}

/* Is one of these functions or operators owned by another user? owner_attnum: owner column of their catalog. */
static bool
is_any_of_others(FuncCandidateList candidates, int cacheid, AttrNumber owner_attnum, Oid table_owner)
{
	for (FuncCandidateList candidate = candidates; candidate != NULL; candidate = candidate->next)
	{
		Oid			owner = DatumGetObjectId(shard_catalog_value(cacheid, candidate->oid, owner_attnum));

		if (OidIsValid(owner) && !may_run(owner, table_owner))
			return true;
	}
	return false;
}

/* Checks all functions with that name, for any argument types. */
static bool
is_function_of_others(List *name, Oid table_owner)
{
	return is_any_of_others(shard_function_candidates(name), PROCOID, Anum_pg_proc_proowner, table_owner);
}

static bool
is_operator_of_others(List *name, Oid table_owner)
{
	return is_any_of_others(shard_operator_candidates(name), OPEROID, Anum_pg_operator_oprowner, table_owner);
}

/* Checks the functions of a type, and the constraints of a domain. */
static bool
is_type_of_others(TypeName *name, Oid table_owner)
{
	Oid			owner = DatumGetObjectId(shard_catalog_value(TYPEOID, LookupTypeNameOid(NULL, name, true), Anum_pg_type_typowner));

	return OidIsValid(owner) && !may_run(owner, table_owner);
}

static bool
is_opclass_of_others(const char *access_method, List *name, Oid table_owner)
{
	Oid			am = get_am_oid(access_method, true);
	Oid			opclass = OidIsValid(am) && name != NIL ? get_opclass_oid(am, name, true) : InvalidOid;
	Oid			owner = DatumGetObjectId(shard_catalog_value(CLAOID, opclass, Anum_pg_opclass_opcowner));

	return OidIsValid(owner) && !may_run(owner, table_owner);
}

typedef struct CodeSearch
{
	Oid			table_owner;
	const char *access_method;
} CodeSearch;

static bool
find_code_of_others(Node *node, void *arg)
{
	CodeSearch *search = arg;

	if (node == NULL)
		return false;
	if ((IsA(node, FuncCall) && is_function_of_others(castNode(FuncCall, node)->funcname, search->table_owner)) ||
		(IsA(node, A_Expr) && is_operator_of_others(castNode(A_Expr, node)->name, search->table_owner)) ||
		(IsA(node, TypeName) && is_type_of_others(castNode(TypeName, node), search->table_owner)))
		return true;
	if (IsA(node, IndexElem))
		return is_opclass_of_others(search->access_method, castNode(IndexElem, node)->opclass, search->table_owner) ||
			find_code_of_others(castNode(IndexElem, node)->expr, arg);
	return raw_expression_tree_walker(node, find_code_of_others, arg);
}

/* Would the index or exclusion constraint run another user's functions with the rights of the table's owner? */
static bool
runs_code_of_others(Node *stmt)
{
	Constraint *constraint = added_constraint(stmt);
	RangeVar   *relation = IsA(stmt, IndexStmt) ? castNode(IndexStmt, stmt)->relation : castNode(AlterTableStmt, stmt)->relation;
	Oid			relid = RangeVarGetRelid(relation, NoLock, true);
	Oid			owner = DatumGetObjectId(shard_catalog_value(RELOID, relid, Anum_pg_class_relowner));
	CodeSearch	search = {OidIsValid(owner) ? owner : GetUserId(), "btree"};

	if (IsA(stmt, IndexStmt))
	{
		search.access_method = castNode(IndexStmt, stmt)->accessMethod;
		return find_code_of_others((Node *) castNode(IndexStmt, stmt)->indexParams, &search) ||
			find_code_of_others(castNode(IndexStmt, stmt)->whereClause, &search);
	}
	if (constraint->contype != CONSTR_EXCLUSION)
		return false;
	if (constraint->access_method)
		search.access_method = constraint->access_method;
	foreach_node(List, pair, constraint->exclusions)
	{
		if (find_code_of_others(linitial(pair), &search) || is_operator_of_others(lsecond(pair), search.table_owner))
			return true;
	}
	return find_code_of_others(constraint->where_clause, &search);
}

/* Raises an error for anything but a foreign key that references refers_to. */
static void
check_referenced(Node *stmt, Oid refers_to, const char *command)
{
	const Constraint *constraint = added_constraint(stmt);

	if (!is_foreign_key(stmt))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a node has answered with something that is no definition of a foreign key"),
				 errdetail("The command would be: %s", command)));
	if (constraint->pktable->schemaname == NULL || !OidIsValid(refers_to) ||
		RangeVarGetRelid(constraint->pktable, NoLock, true) != refers_to)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("foreign key \"%s\" of a node references a table that the coordinator does not expect",
						constraint->conname ? constraint->conname : ""),
				 errdetail("It refers to %s.", constraint->pktable->schemaname ?
						   quote_qualified_identifier(constraint->pktable->schemaname, constraint->pktable->relname) :
						   quote_identifier(constraint->pktable->relname)),
				 errhint("Drop the foreign key on the node if it is not intended.")));
}

/*
 * checked_definition(command text, refers_to regclass) -> text: returns the command.  It must add one foreign key to
 * refers_to.  If refers_to is NULL, it must add one other key or exclusion constraint, or create one index.  The
 * functions of these are looked up here, so the command may run on the coordinator or on the node that sent it.
 */
Datum
shardfdw_checked_definition(PG_FUNCTION_ARGS)
{
	const char *command;
	Node	   *stmt;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	command = text_to_cstring(PG_GETARG_TEXT_PP(0));
	stmt = shard_definition_statement(command);
	if (stmt == NULL || !is_definition(stmt))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a node has answered with something that is no definition of a constraint or an index"),
				 errdetail("The command would be: %s", command)));
	if (runs_code_of_others(stmt))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("an index or a constraint of a node would run code of others with the rights of the table's owner"),
				 errdetail("The command would be: %s", command),
				 errhint("Drop it on the node, or let the owner of the table, or a superuser, own what it uses.")));
	if (!PG_ARGISNULL(1) || is_foreign_key(stmt))
		check_referenced(stmt, PG_ARGISNULL(1) ? InvalidOid : PG_GETARG_OID(1), command);
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}
