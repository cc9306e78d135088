/*
 * ddl_refer.c
 *	  Refuses foreign keys from tables of the coordinator to sharded tables, which could not be checked.
 *
 * Core finds no valid index of the sharded table, and its error says that there is no such key.  But clients see the
 * key on the coordinator.  So this file raises an error that explains what is not possible, and what is.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/qualified.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/alter/ddl_refer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

static bool
is_sharded(Oid relid)
{
	return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE && shard_map_get(relid) != NULL;
}

/* The column of the constraint that references the first column of the sharded table's key; NULL: none. */
static const char *
column_of_key(const Constraint *constraint, Oid referenced)
{
	const char *key = shard_alter_key_column(referenced, 0);
	const char *column = NULL;
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, constraint->fk_attrs, lc2, constraint->pk_attrs ? constraint->pk_attrs : shard_alter_primary_key(referenced))
	{
		if (key && strcmp(strVal(lfirst(lc2)), key) == 0)
			column = strVal(lfirst(lc));
	}
	return column;
}

/* Raises an error if the constraint references a sharded table. column: the column that has the constraint, or NULL. */
static void
check_constraint(const RangeVar *relation, const Constraint *constraint, const char *column)
{
	Oid			referenced;

	if (constraint->contype != CONSTR_FOREIGN)
		return;
	/* core takes a stronger lock, later */
	referenced = RangeVarGetRelid(constraint->pktable, AccessShareLock, true);
	if (!is_sharded(referenced))
		return;
	if (column == NULL)
		column = column_of_key(constraint, referenced);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot add a foreign key from table \"%s\" to sharded table \"%s\"", relation->relname, get_rel_name(referenced)),
			 errdetail("Its rows are on nodes, where those of table \"%s\" are not.", relation->relname),
			 column == NULL ?
			 errhint("Add the shard key to the foreign key, and colocate this table with that one.") :
			 errhint("Shard it as well, by the column that refers to the shard key, and add the foreign key then: SELECT shardfdw.shard_table(%s, %s, colocate_with => %s).",
					 quote_literal_cstr(quote_qualified_identifier(relation->schemaname, relation->relname)), quote_literal_cstr(column),
					 quote_literal_cstr(shard_qualified_relation(referenced)))));
}

static void
check_column(const RangeVar *relation, const ColumnDef *column)
{
	foreach_node(Constraint, constraint, column->constraints)
		check_constraint(relation, constraint, column->colname);
}

void
shard_ddl_check_new_table(const CreateStmt *stmt)
{
	foreach_ptr(Node, element, stmt->tableElts)
	{
		if (IsA(element, ColumnDef))
			check_column(stmt->relation, (ColumnDef *) element);
		else if (IsA(element, Constraint))
			check_constraint(stmt->relation, (Constraint *) element, NULL);
	}
}

void
shard_ddl_check_new_keys(const AlterTableStmt *stmt)
{
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		if (cmd->subtype == AT_AddConstraint)
			check_constraint(stmt->relation, castNode(Constraint, cmd->def), NULL);
		else if (cmd->subtype == AT_AddColumn)
			check_column(stmt->relation, castNode(ColumnDef, cmd->def));
	}
}
