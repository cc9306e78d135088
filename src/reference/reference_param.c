/*
 * reference_param.c
 *	  Identifies rows and passes values in commands for the replicas of a reference table.
 *
 * A replica finds its rows by the identity, an immediate unique key without NULLs, as in logical replication.  Values
 * are sent as text, several of them as typed arrays.  If the type of a column was changed manually in a replica, the
 * replica converts them or raises an error.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "catalog/qualified.h"
#include "compat.h"
#include "optimizer/optimizer.h"
#include "reference/reference_param.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

AttrNumber *
shard_reference_param_sent(TupleDesc desc, int *ncolumns)
{
	AttrNumber *attnos = palloc(sizeof(AttrNumber) * Max(desc->natts, 1));

	*ncolumns = 0;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && att->attgenerated == '\0')
			attnos[(*ncolumns)++] = att->attnum;
	}
	return attnos;
}

const char *
shard_reference_param_column(Relation rel, AttrNumber attno)
{
	return quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname));
}

/* ---------- identity ---------- */

/* Does the index identify a row at any moment? */
static bool
is_identity(Relation index, TupleDesc desc)
{
	Form_pg_index form = index->rd_index;

	/* a unique index of another access method is WITHOUT OVERLAPS: it has no two equal rows, either */
	if ((index->rd_rel->relam != BTREE_AM_OID && !form->indisexclusion) || !form->indisunique || !form->indimmediate ||
		!form->indisvalid || RelationGetIndexPredicate(index) != NIL)
		return false;
	for (int i = 0; i < form->indnkeyatts; i++)
	{
		AttrNumber	attno = form->indkey.values[i];

		/* an expression has no column; a virtual column has no value in the rows passed to triggers */
		if (attno <= 0 || !TupleDescAttr(desc, attno - 1)->attnotnull)
			return false;
	}
	return true;
}

/*
 * Returns the index that identifies rows: the replica identity, else the primary key, else any
 * other suitable one.  InvalidOid: none.
 */
static Oid
find_identity(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	Oid			replica_identity = rel->rd_replidindex;
	Oid			found = InvalidOid;
	bool		found_primary = false;

	foreach_oid(indexid, indexes)
	{
		Relation	index = index_open(indexid, AccessShareLock);
		bool		usable = is_identity(index, RelationGetDescr(rel));
		bool		is_primary = index->rd_index->indisprimary;

		index_close(index, AccessShareLock);
		if (!usable)
			continue;
		if (indexid == replica_identity)
			return replica_identity;
		if (!OidIsValid(found) || (is_primary && !found_primary))
			found = indexid;
		found_primary |= is_primary;
	}
	return found;
}

void
shard_reference_param_identity(Relation rel, const char *verb, ShardReferenceIdentity *identity)
{
	Oid			indexid = find_identity(rel);
	Relation	index;

	if (!OidIsValid(indexid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s reference table \"%s\" because it has no primary key",
						verb, RelationGetRelationName(rel)),
				 errdetail("The rows to be changed cannot be found in the replicas on the nodes."),
				 errhint("Add a primary key, or a unique index over columns that are NOT NULL; it must not be deferrable.")));

	index = index_open(indexid, AccessShareLock);
	identity->ncolumns = index->rd_index->indnkeyatts;
	identity->attnos = palloc(sizeof(AttrNumber) * identity->ncolumns);
	identity->operators = palloc(sizeof(char *) * identity->ncolumns);
	for (int i = 0; i < identity->ncolumns; i++)
	{
		identity->attnos[i] = index->rd_index->indkey.values[i];
		identity->operators[i] = shard_qualified_equality(index, i, TupleDescAttr(RelationGetDescr(rel), identity->attnos[i] - 1)->atttypid);
	}
	index_close(index, AccessShareLock);
}

/* If these columns change, the order of changes matters: a row can only get a key that is free at that moment. */
Bitmapset *
shard_reference_param_unique(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	Bitmapset  *columns = NULL;

	foreach_oid(indexid, indexes)
	{
		Relation	index = index_open(indexid, AccessShareLock);

		if (index->rd_index->indisunique && index->rd_index->indimmediate)
		{
			for (int i = 0; i < index->rd_index->indnkeyatts; i++)
			{
				AttrNumber	attno = index->rd_index->indkey.values[i];

				if (attno != 0)
					columns = bms_add_member(columns, attno - FirstLowInvalidHeapAttributeNumber);
			}
			pull_varattnos((Node *) RelationGetIndexExpressions(index), 1, &columns);
			pull_varattnos((Node *) RelationGetIndexPredicate(index), 1, &columns);
		}
		index_close(index, AccessShareLock);
	}
	return columns;
}

/* ---------- parameters ---------- */

void
shard_reference_param_init(ShardReferenceParams *columns, Relation rel, AttrNumber *attnos, int ncolumns,
						   const char *prefix, int nbefore, bool is_single)
{
	TupleDesc	desc = RelationGetDescr(rel);

	columns->ncolumns = ncolumns;
	columns->attnos = attnos;
	columns->prefix = prefix;
	columns->nbefore = nbefore;
	columns->is_single = is_single;
	columns->encoder = shard_encode_create(desc, attnos, ncolumns);
	columns->values = palloc0(sizeof(char *) * Max(ncolumns, 1));
	columns->types = palloc(sizeof(char *) * Max(ncolumns, 1));
	columns->as_text = palloc(sizeof(bool) * Max(ncolumns, 1));
	columns->delims = palloc(Max(ncolumns, 1));
	columns->arrays = palloc(sizeof(StringInfoData) * Max(ncolumns, 1));
	for (int i = 0; i < ncolumns; i++)
	{
		Oid			type = TupleDescAttr(desc, attnos[i] - 1)->atttypid;
		Oid			array_type = OidIsValid(get_element_type(type)) ? InvalidOid : get_array_type(type);
		int16		len;
		bool		byval;
		char		align;
		Oid			io_param;
		Oid			func;

		columns->types[i] = shard_type_io_cast_name(type);
		if (type >= FirstGenbkiObjectId)
			columns->types[i] = psprintf("%s%s", columns->types[i], shard_type_io_comment(list_make1_oid(type)));
		/* there are no arrays of arrays, and unnest() expands rows to several columns */
		columns->as_text[i] = !OidIsValid(array_type) || type_is_rowtype(type);
		get_type_io_data(columns->as_text[i] ? TEXTOID : type, IOFunc_input, &len, &byval, &align,
						 &columns->delims[i], &io_param, &func);
		initStringInfo(&columns->arrays[i]);
	}
}

void
shard_reference_param_read(ShardReferenceParams *columns, TupleTableSlot *slot, MemoryContext row_cxt)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(row_cxt);

	shard_encode_params(columns->encoder, slot, columns->values);
	MemoryContextSwitchTo(oldcxt);
}

Size
shard_reference_param_append(ShardReferenceParams *columns)
{
	Size		nbytes = 0;

	for (int i = 0; i < columns->ncolumns; i++)
	{
		StringInfo	array = &columns->arrays[i];
		int			before = array->len;

		appendStringInfoChar(array, array->len == 0 ? '{' : columns->delims[i]);
		if (columns->values[i] == NULL)
			appendStringInfoString(array, "NULL");
		else
		{
			appendStringInfoChar(array, '"');
			for (const char *c = columns->values[i]; *c != '\0'; c++)
			{
				if (*c == '"' || *c == '\\')
					appendStringInfoChar(array, '\\');
				appendStringInfoChar(array, *c);
			}
			appendStringInfoChar(array, '"');
		}
		nbytes += array->len - before;
	}
	return nbytes;
}

static int
add_params(ShardReferenceParams *columns, const char **params, int nparams)
{
	for (int i = 0; i < columns->ncolumns; i++)
	{
		if (!columns->is_single)
			appendStringInfoChar(&columns->arrays[i], '}');
		params[nparams++] = columns->is_single ? columns->values[i] : columns->arrays[i].data;
	}
	return nparams;
}

const char **
shard_reference_param_collect(ShardReferenceParams *keys, ShardReferenceParams *values)
{
	const char **params = palloc(sizeof(char *) * (keys->ncolumns + (values ? values->ncolumns : 0)));
	int			nparams = add_params(keys, params, 0);

	if (values)
		(void) add_params(values, params, nparams);
	return params;
}

void
shard_reference_param_empty(ShardReferenceParams *columns)
{
	for (int i = 0; i < columns->ncolumns; i++)
		resetStringInfo(&columns->arrays[i]);
}

static void
append_unnest(StringInfo sql, const ShardReferenceParams *columns)
{
	for (int i = 0; i < columns->ncolumns; i++)
		appendStringInfo(sql, "%spg_catalog.unnest($%d::%s[])", columns->nbefore + i > 0 ? ", " : "",
						 columns->nbefore + i + 1, columns->as_text[i] ? "pg_catalog.text" : columns->types[i]);
}

static void
append_aliases(StringInfo sql, const ShardReferenceParams *columns)
{
	for (int i = 0; i < columns->ncolumns; i++)
		appendStringInfo(sql, "%s%s%d", columns->nbefore + i > 0 ? ", " : "", columns->prefix, i + 1);
}

void
shard_reference_param_rows(StringInfo sql, const ShardReferenceParams *keys, const ShardReferenceParams *values)
{
	appendStringInfoString(sql, "ROWS FROM (");
	append_unnest(sql, keys);
	if (values)
		append_unnest(sql, values);
	appendStringInfoString(sql, ") AS v (");
	append_aliases(sql, keys);
	if (values)
		append_aliases(sql, values);
	appendStringInfoChar(sql, ')');
}

void
shard_reference_param_value(StringInfo sql, const ShardReferenceParams *columns, int i)
{
	if (columns->is_single)
		appendStringInfo(sql, "$%d", columns->nbefore + i + 1);
	else
		appendStringInfo(sql, "v.%s%d", columns->prefix, i + 1);
	if (columns->is_single || columns->as_text[i])
		appendStringInfo(sql, "::%s", columns->types[i]);
}

void
shard_reference_param_match(StringInfo sql, Relation rel, const ShardReferenceParams *keys,
							const ShardReferenceIdentity *identity)
{
	for (int i = 0; i < keys->ncolumns; i++)
	{
		appendStringInfo(sql, "%sr.%s %s ", i > 0 ? " AND " : "",
						 shard_reference_param_column(rel, keys->attnos[i]), identity->operators[i]);
		shard_reference_param_value(sql, keys, i);
	}
}
