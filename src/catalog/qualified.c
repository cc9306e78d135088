/*
 * qualified.c
 *	  Schema-qualified names of objects as SQL text.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_operator.h"
#include "catalog/qualified.h"
#include "catalog_scan.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

char *
shard_qualified_relation(Oid relid)
{
	const char *name = get_rel_name(relid);
	const char *schema = name ? get_namespace_name(get_rel_namespace(relid)) : NULL;

	if (schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid),
				 errdetail("It has been dropped, or the transaction that makes it has not ended.")));
	return quote_qualified_identifier(schema, name);
}

char *
shard_qualified_operator(Oid operator)
{
	HeapTuple	tuple = shard_catalog_row(OPEROID, operator);
	Form_pg_operator form;
	char	   *name;

	form = (Form_pg_operator) GETSTRUCT(tuple);
	name = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)), NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return name;
}

char *
shard_qualified_equality(Relation index, int keyno, Oid atttype)
{
	Oid			type = index->rd_opcintype[keyno];
	Oid			operator = index->rd_rel->relam == BTREE_AM_OID ?
		get_opfamily_member(index->rd_opfamily[keyno], type, type, BTEqualStrategyNumber) :
		lookup_type_cache(atttype, TYPECACHE_EQ_OPR)->eq_opr;

	if (!OidIsValid(operator))
		elog(ERROR, "operator family %u has no equality for type %u", index->rd_opfamily[keyno], type);
	return shard_qualified_operator(operator);
}
