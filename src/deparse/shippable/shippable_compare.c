/*
 * shippable_compare.c
 *	  Decides whether nodes compare values of a type as the coordinator does.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "deparse/shippable/shippable_compare.h"
#include "deparse/shippable/shippable_rule.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

bool
shard_compare_order_ok(Node *expr, Oid sortop, bool default_collation, ShardExtensionScope *extensions)
{
	Oid			type = getBaseType(exprType(expr));
	Oid			collation = exprCollation(expr);
	Oid			element = get_element_type(type);

	if (!(shard_rule_is_builtin(sortop) || shard_extension_operator_ok(extensions, sortop)) ||
		!(shard_rule_type_ok(type) || shard_extension_type_ok(extensions, type)))
		return false;

	/* strings inside of jsonb are compared in the default collation */
	if (type == JSONBOID || element == JSONBOID)
		return default_collation;
	if (!OidIsValid(collation) || shard_rule_is_byte_order(collation))
		return true;
	return collation == DEFAULT_COLLATION_OID && default_collation;
}

bool
shard_compare_equality_ok(Node *expr, ShardExtensionScope *extensions)
{
	Oid			type = exprType(expr);
	Oid			collation = exprCollation(expr);

	if (!shard_rule_type_ok(getBaseType(type)) && get_typtype(type) != TYPTYPE_ENUM &&
		!shard_extension_type_ok(extensions, getBaseType(type)))
		return false;
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}
