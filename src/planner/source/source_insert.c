/*
 * source_insert.c
 *	  INSERT ... ON CONFLICT over rows that the coordinator computes.
 *
 *	   columns	values of the target's columns, with the defaults that the
 *				rewriter has added
 *	   build	INSERT INTO shard AS r1 (...) SELECT ... FROM unnest(...)
 *				ON CONFLICT ... RETURNING ...
 *
 * The node infers the unique index from the columns of the ON CONFLICT clause.  A constraint is replaced by its
 * columns, because it may have another name on the node.  The columns must include the shard key, unless there is
 * only one shard.  Then rows that conflict are on one shard.  DO UPDATE must not change the key.  It may only set the
 * key to the value of the proposed row, which is the same.
 */
#include "postgres.h"

#include "catalog/pg_constraint.h"
#include "catalog/route.h"
#include "catalog/shard_map.h"
#include "catalog_scan.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "planner/source/source_modify.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"

void
shard_source_insert_columns(ShardSourceInfo *info)
{
	TupleDesc	desc = RelationGetDescr(info->rel);
	List	   *places = NIL;
	List	   *keys = shard_route_key_attnos(RelationGetRelid(info->rel));

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		TargetEntry *entry;

		places = lappend_int(places, 0);
		if (att->attisdropped || att->attgenerated != '\0')
			continue;
		entry = get_tle_by_resno(info->query->targetList, att->attnum);
		if (entry == NULL)
		{
			entry = shard_source_null(info, att);
			if (!list_member_int(keys, att->attnum) && IsA(entry->expr, Const))
			{
				info->insert_values = lappend(info->insert_values, entry);
				continue;
			}
		}
		entry = flatCopyTargetEntry(entry);
		entry->expr = (Expr *) shard_source_add_column(info, entry->expr, false);
		llast_int(places) = list_length(info->columns);
		info->insert_values = lappend(info->insert_values, entry);
	}
	foreach_int(key, keys)
		info->key_columns = lappend_int(info->key_columns, list_nth_int(places, key - 1));
}

List *
shard_source_constraint_elements(ShardSourceInfo *info, Oid constraint)
{
	HeapTuple	tuple = shard_catalog_row(CONSTROID, constraint);
	TupleDesc	desc = RelationGetDescr(info->rel);
	List	   *elements = NIL;
	ArrayType  *columns;
	Form_pg_constraint form;
	bool		is_unique;

	form = (Form_pg_constraint) GETSTRUCT(tuple);
	if (form->contype != CONSTRAINT_PRIMARY && form->contype != CONSTRAINT_UNIQUE)
		shard_source_refuse(info, psprintf(_("Constraint \"%s\" is neither a primary key nor a unique constraint."),
										   NameStr(form->conname)));
	/* equal values are allowed if they do not overlap */
	(void) SysCacheGetAttr(CONSTROID, tuple, Anum_pg_constraint_conexclop, &is_unique);
	if (!is_unique)
		shard_source_refuse(info, psprintf(_("Constraint \"%s\" is WITHOUT OVERLAPS, and nodes find constraints by their columns alone."),
										   NameStr(form->conname)));
	columns = DatumGetArrayTypeP(SysCacheGetAttrNotNull(CONSTROID, tuple,
														Anum_pg_constraint_conkey));
	for (int i = 0; i < ARR_DIMS(columns)[0]; i++)
	{
		AttrNumber	attno = ((int16 *) ARR_DATA_PTR(columns))[i];
		Form_pg_attribute att = TupleDescAttr(desc, attno - 1);
		InferenceElem *element = makeNode(InferenceElem);

		element->expr = (Node *) makeVar(info->target, attno, att->atttypid, att->atttypmod,
										 att->attcollation, 0);
		elements = lappend(elements, element);
	}
	ReleaseSysCache(tuple);
	return elements;
}

/* Do elements include all columns of a key?  With collations, compared as the key compares them? */
static bool
include_key(List *elements, int natts, const AttrNumber *attnos, const Oid *collations)
{
	for (int i = 0; i < natts; i++)
	{
		bool		found = false;

		foreach_node(InferenceElem, element, elements)
		{
			Var		   *var = (Var *) element->expr;

			if (IsA(var, Var) && var->varattno == attnos[i] &&
				(collations == NULL ||
				 (!OidIsValid(element->inferopclass) &&
				  (!OidIsValid(element->infercollid) || element->infercollid == collations[i]))))
				found = true;
		}
		if (!found)
			return false;
	}
	return true;
}

void
shard_source_check_elements(ShardSourceInfo *info, List *elements, bool compare)
{
	PartitionKey key = RelationGetPartitionKey(info->rel);
	const ShardMap *map = shard_map_get_levels(RelationGetRelid(info->rel), true);
	const ShardLevelKey *below = map->part_key;

	if (map->takes_all)
		return;
	if (!include_key(elements, key->partnatts, key->partattrs, compare ? key->partcollation : NULL) ||
		(below != NULL && !include_key(elements, below->natts, below->attnos, compare ? below->collations : NULL)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("there is no unique or exclusion constraint matching the ON CONFLICT specification"),
				 errdetail("On sharded table \"%s\" it has to include the shard key.",
						   RelationGetRelationName(info->rel))));
}

void
shard_source_check_key(ShardSourceInfo *info, TargetEntry *entry)
{
	Var		   *var = (Var *) entry->expr;

	if (list_member_int(shard_route_key_attnos(RelationGetRelid(info->rel)), entry->resno) &&
		!shard_map_get_levels(RelationGetRelid(info->rel), true)->takes_all &&
		(!IsA(var, Var) || var->varlevelsup != 0 || var->varattno != entry->resno))
		shard_source_refuse(info, psprintf(_("DO UPDATE changes column \"%s\" of the shard key."),
										   get_attname(RelationGetRelid(info->rel), entry->resno, false)));
}

/* Converts the assignments of DO UPDATE.  Leaves out the shard key, which does not change. */
static List *
convert_assignments(ShardSourceInfo *info, List *tlist)
{
	List	   *result = NIL;

	foreach_node(TargetEntry, original, tlist)
	{
		TargetEntry *entry = flatCopyTargetEntry(original);
		const char *name;

		if (entry->resjunk)
			continue;
		name = get_attname(RelationGetRelid(info->rel), entry->resno, false);
		entry->expr = (Expr *) shard_source_prepare_assigned(info, (Node *) entry->expr);
		shard_source_check_key(info, entry);
		entry->expr = shard_source_convert(info, entry->expr, psprintf(_("the new value of column \"%s\""), name));
		result = lappend(result, entry);
	}
	if (result == NIL)
	{
		TargetEntry *entry = shard_source_unchanged(info);

		entry->expr = shard_source_convert(info, entry->expr, _("the shard key"));
		result = list_make1(entry);
	}
	return result;
}

/* Converts an optional expression to the terms of the remote statement. */
static Node *
convert(ShardSourceInfo *info, Node *expr, const char *what)
{
	return expr == NULL ? NULL : (Node *) shard_source_convert(info, (Expr *) shard_source_prepare(expr), what);
}

static List *
convert_elements(ShardSourceInfo *info, List *elements)
{
	List	   *result = copyObject(elements);

	foreach_node(InferenceElem, element, result)
		element->expr = convert(info, element->expr, _("an expression of ON CONFLICT"));
	return result;
}

/* Adds the proposed row, named "excluded". */
static void
add_excluded(ShardSourceInfo *info)
{
	Query	   *query = info->level->query;
	ShardLevelRel *rel = palloc0(sizeof(ShardLevelRel));

	query->rtable = lappend(query->rtable,
							copyObject(rt_fetch(info->excluded, info->query->rtable)));
	rel->rtindex = info->excluded;
	rel->varno = list_length(query->rtable);
	rel->relid = RelationGetRelid(info->rel);
	info->level->rels = lappend(info->level->rels, rel);
}

static OnConflictExpr *
convert_on_conflict(ShardSourceInfo *info)
{
	OnConflictExpr *source = info->query->onConflict;
	OnConflictExpr *result = makeNode(OnConflictExpr);
	List	   *elements = source->arbiterElems;

	result->action = source->action;
	if (OidIsValid(source->constraint))
		elements = shard_source_constraint_elements(info, source->constraint);
	if (elements != NIL)
	{
		shard_source_check_elements(info, elements, true);
		result->arbiterElems = convert_elements(info, elements);
		result->arbiterWhere = convert(info, source->arbiterWhere, _("the index condition of ON CONFLICT"));
	}
	if (source->action == ONCONFLICT_UPDATE)
	{
		add_excluded(info);
		result->exclRelIndex = list_length(info->level->query->rtable);
		result->onConflictSet = convert_assignments(info, source->onConflictSet);
		result->onConflictWhere = convert(info, source->onConflictWhere, _("the condition of DO UPDATE"));
	}
	return result;
}

static bool
has_identity(TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attidentity != '\0')
			return true;
	}
	return false;
}

void
shard_source_insert_build(ShardSourceInfo *info)
{
	Query	   *query = info->level->query;
	List	   *values = NIL;

	query->commandType = CMD_INSERT;
	query->resultRelation = 1;
	foreach_node(TargetEntry, entry, info->insert_values)
		values = lappend(values, entry->expr);
	query->jointree->fromlist = list_make1(shard_source_add_rows(info, values));
	query->targetList = info->insert_values;

	/* the coordinator has computed its values */
	if (has_identity(RelationGetDescr(info->rel)))
		query->override = OVERRIDING_SYSTEM_VALUE;
	query->onConflict = convert_on_conflict(info);
}
