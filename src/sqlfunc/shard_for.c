/*
 * shard_for.c
 *	  SQL function shard_for(): returns the shard for a key.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/route.h"
#include "catalog/shard_map.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "open_table.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(shardfdw_shard_for);

/* Converts a value to the type of key column keyno, by the cast that INSERT would use. */
static Datum
coerce_to_key(Relation parent, int keyno, Oid type, int32 typmod, Datum value, bool *isnull)
{
	PartitionKey key = RelationGetPartitionKey(parent);
	int16		typlen;
	bool		typbyval;
	Node	   *expr;
	EState	   *estate;
	Datum		result;

	if (type == key->parttypid[keyno])
		return value;

	get_typlenbyval(type, &typlen, &typbyval);
	expr = (Node *) makeConst(type, typmod, get_typcollation(type), typlen,
							  value, *isnull, typbyval);
	expr = coerce_to_target_type(NULL, expr, type, key->parttypid[keyno], key->parttypmod[keyno],
								 COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	if (expr == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("key of table \"%s\" is of type %s but a value of type %s was given",
						RelationGetRelationName(parent),
						format_type_be(key->parttypid[keyno]), format_type_be(type))));

	estate = CreateExecutorState();
	result = ExecEvalExprSwitchContext(ExecPrepareExpr((Expr *) expr, estate),
									   GetPerTupleExprContext(estate), isnull);
	if (!*isnull)
	{
		get_typlenbyval(key->parttypid[keyno], &typlen, &typbyval);
		result = datumCopy(result, typbyval, typlen);
	}
	FreeExecutorState(estate);
	return result;
}

/* Splits a row into the values of the key columns. */
static void
deform_key(Relation parent, Datum row, Datum *values, bool *isnull)
{
	PartitionKey key = RelationGetPartitionKey(parent);
	HeapTupleHeader header = DatumGetHeapTupleHeader(row);
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header),
											  HeapTupleHeaderGetTypMod(header));

	if (desc->natts != key->partnatts)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("key of table \"%s\" has %d columns but %d values were given",
						RelationGetRelationName(parent), key->partnatts, desc->natts)));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		values[i] = GetAttributeByNum(header, i + 1, &isnull[i]);
		values[i] = coerce_to_key(parent, i, att->atttypid, att->atttypmod, values[i], &isnull[i]);
	}
	ReleaseTupleDesc(desc);
}

/*
 * shard_for(relation regclass, key anyelement) -> regclass
 *
 * A key with several columns is given as a row: ROW(1, 'a').  NULL if no partition accepts the key.
 */
Datum
shardfdw_shard_for(PG_FUNCTION_ARGS)
{
	Oid			relid;
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 1);
	Relation	parent;
	PartitionKey key;
	const ShardMap *map;
	PartitionDesc partdesc;
	Datum		values[PARTITION_MAX_KEYS];
	bool		isnull[PARTITION_MAX_KEYS];
	int			shardno;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	relid = PG_GETARG_OID(0);

	parent = shard_open_table(relid, AccessShareLock);
	map = parent->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? shard_route_pin(parent, &partdesc) : NULL;
	if (map == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a sharded table", RelationGetRelationName(parent))));

	key = RelationGetPartitionKey(parent);
	if (key->partnatts > 1 && !PG_ARGISNULL(1) && type_is_rowtype(type))
		deform_key(parent, PG_GETARG_DATUM(1), values, isnull);
	else if (key->partnatts > 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("key of table \"%s\" has %d columns",
						RelationGetRelationName(parent), key->partnatts),
				 errhint("Give the key as a row, in the order of the key: ROW(value, value).")));
	else
	{
		isnull[0] = PG_ARGISNULL(1);
		values[0] = coerce_to_key(parent, 0, type, -1,
								  isnull[0] ? (Datum) 0 : PG_GETARG_DATUM(1), &isnull[0]);
	}

	shardno = shard_route_key(parent, partdesc, values, isnull);
	table_close(parent, AccessShareLock);

	if (shardno < 0)
		PG_RETURN_NULL();
	PG_RETURN_OID(map->shards[shardno].relid);
}
