/*
 * shippable_rule.c
 *	  Rules: which types, functions and collations mean the same on every node.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/collation.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "deparse/shippable/shippable_rule.h"
#include "nodes/nodeFuncs.h"
#include "tuple/type_io.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

bool
shard_rule_is_builtin(Oid oid)
{
	return OidIsValid(oid) && oid < FirstGenbkiObjectId;
}

/*
 * Finds a node that prevents an expression from being a single value. context: bool, whether parameters of the plan
 * are allowed.
 */
static bool
not_value_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Param:
			switch (((Param *) node)->paramkind)
			{
				case PARAM_EXTERN:
					return false;
				case PARAM_EXEC:
					return !*(bool *) context;
				default:

					/*
					 * PARAM_SUBLINK and PARAM_MULTIEXPR are columns of a sub-select of the enclosing expression or
					 * target list
					 */
					return true;
			}
		case T_List:
		case T_TargetEntry:
		case T_Const:
		case T_FuncExpr:
		case T_NamedArgExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_SubscriptingRef:
		case T_FieldSelect:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_CollateExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_RowCompareExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_SQLValueFunction:
		case T_NextValueExpr:
		case T_XmlExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CoerceToDomain:
		SHARD_JSON_VALUES
			return expression_tree_walker(node, not_value_walker, context);
		default:
			/* columns, aggregates, sub-selects, placeholders for a value of the current row */
			return true;
	}
}

bool
shard_rule_is_value(Node *expr, bool any_param)
{
	return !not_value_walker(expr, &any_param);
}

bool
shard_rule_is_byte_order(Oid collation)
{
	return collation == C_COLLATION_OID || collation == POSIX_COLLATION_OID;
}

/* Stable functions that depend only on TimeZone. */
static bool
depends_on_timezone_only(Oid funcid)
{
	switch (funcid)
	{
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
		case F_DATE_PART_TEXT_TIMESTAMPTZ:
		case F_EXTRACT_TEXT_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_PL_INTERVAL:
		case F_TIMESTAMPTZ_MI_INTERVAL:
		case F_INTERVAL_PL_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_DATE:
		case F_DATE_TIMESTAMPTZ:
		case F_TIME_TIMESTAMPTZ:
		case F_TIMETZ_TIMESTAMPTZ:
		case F_TIMESTAMP_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_TIMESTAMP:
		case F_TIMESTAMPTZ_DATE_TIME:
		case F_DATE_LT_TIMESTAMPTZ:
		case F_DATE_LE_TIMESTAMPTZ:
		case F_DATE_EQ_TIMESTAMPTZ:
		case F_DATE_GT_TIMESTAMPTZ:
		case F_DATE_GE_TIMESTAMPTZ:
		case F_DATE_NE_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_LT_DATE:
		case F_TIMESTAMPTZ_LE_DATE:
		case F_TIMESTAMPTZ_EQ_DATE:
		case F_TIMESTAMPTZ_GT_DATE:
		case F_TIMESTAMPTZ_GE_DATE:
		case F_TIMESTAMPTZ_NE_DATE:
		case F_TIMESTAMP_LT_TIMESTAMPTZ:
		case F_TIMESTAMP_LE_TIMESTAMPTZ:
		case F_TIMESTAMP_EQ_TIMESTAMPTZ:
		case F_TIMESTAMP_GT_TIMESTAMPTZ:
		case F_TIMESTAMP_GE_TIMESTAMPTZ:
		case F_TIMESTAMP_NE_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_LT_TIMESTAMP:
		case F_TIMESTAMPTZ_LE_TIMESTAMP:
		case F_TIMESTAMPTZ_EQ_TIMESTAMP:
		case F_TIMESTAMPTZ_GT_TIMESTAMP:
		case F_TIMESTAMPTZ_GE_TIMESTAMP:
		case F_TIMESTAMPTZ_NE_TIMESTAMP:
			return true;
		default:
			return false;
	}
}

/*
 * Functions that core calls immutable, although they look up an object by its OID, or use the server's WAL.  The OID may
 * come from a column or another function, so the rules for values of reg types do not find all calls.
 */
static bool
depends_on_server(Oid funcid)
{
	switch (funcid)
	{
		case F_SATISFIES_HASH_PARTITION:
		case F_PG_PARTITION_ROOT:
		case F_PG_INDEXAM_PROGRESS_PHASENAME:
		case F_BTEQUALIMAGE:
		case F_BTVARSTREQUALIMAGE:
		case F_TS_TOKEN_TYPE_OID:
		case F_TS_PARSE_OID_TEXT:
		case F_TS_LEXIZE:
		case F_MAKEACLITEM:
		case F_ACLDEFAULT:
		case F_POSTGRESQL_FDW_VALIDATOR:
		case F_PG_WALFILE_NAME:
		case F_PG_WALFILE_NAME_OFFSET:
			return true;
		default:
			return false;
	}
}

#define IN_MAJOR(major) (UINT32_C(1) << (major))
#define IN_EACH_MAJOR (~UINT32_C(0))

/*
 * Returns the majors, as bits, in which results of a function changed, or an error became a result.  Found by calls of all
 * immutable functions on 15, 16, 18 and 19, and in the release notes.  Not listed: last digits of floating-point numbers,
 * errors for invalid arguments, and functions that older majors lack.
 */
static uint32
changed_in(Oid funcid)
{
	switch (funcid)
	{
			/* each major has another version of Unicode, and other dictionaries */
		case F_NORMALIZE:
		case F_IS_NORMALIZED:
		case 6105:				/* unicode_assigned(), which came with 17 */
		case F_TO_TSVECTOR_REGCONFIG_TEXT:
		case F_TO_TSVECTOR_REGCONFIG_JSON:
		case F_TO_TSVECTOR_REGCONFIG_JSONB:
		case F_JSON_TO_TSVECTOR_REGCONFIG_JSON_JSONB:
		case F_JSONB_TO_TSVECTOR_REGCONFIG_JSONB_JSONB:
		case F_TO_TSQUERY_REGCONFIG_TEXT:
		case F_PLAINTO_TSQUERY_REGCONFIG_TEXT:
		case F_PHRASETO_TSQUERY_REGCONFIG_TEXT:
		case F_WEBSEARCH_TO_TSQUERY_REGCONFIG_TEXT:
		case F_TS_HEADLINE_REGCONFIG_TEXT_TSQUERY:
		case F_TS_HEADLINE_REGCONFIG_TEXT_TSQUERY_TEXT:
		case F_TS_HEADLINE_REGCONFIG_JSON_TSQUERY:
		case F_TS_HEADLINE_REGCONFIG_JSON_TSQUERY_TEXT:
		case F_TS_HEADLINE_REGCONFIG_JSONB_TSQUERY:
		case F_TS_HEADLINE_REGCONFIG_JSONB_TSQUERY_TEXT:
			return IN_EACH_MAJOR;

			/* texts such as 0x1F, 0b11 and 1_000 */
		case F_INT2IN:
		case F_INT4IN:
		case F_INT8IN:
		case F_NUMERIC_IN:
		case F_OIDIN:
		case F_XIDIN:
		case F_XID8IN:
		case F_JSONPATH_IN:
			return IN_MAJOR(16) | IN_MAJOR(17);

			/* NaN, and bounds far apart */
		case F_WIDTH_BUCKET_FLOAT8_FLOAT8_FLOAT8_INT4:
		case F_WIDTH_BUCKET_NUMERIC_NUMERIC_NUMERIC_INT4:
			return IN_MAJOR(16) | IN_MAJOR(19);

			/* infinite intervals, and intervals out of range */
		case F_AGE_TIMESTAMP_TIMESTAMP:
		case F_AGE_TIMESTAMPTZ_TIMESTAMPTZ:
		case F_TIMESTAMP_MI:
		case F_TIMESTAMPTZ_MI:
		case F_INTERVAL_MUL:
		case F_MUL_D_INTERVAL:
		case F_INTERVAL_DIV:
		case F_MAKE_INTERVAL:
			return IN_MAJOR(17);

			/* null in jsonb; weeks and negative quarters of an interval; abbreviations of time zones; UUIDs of version 7 */
		case F_BOOL_JSONB:
		case F_NUMERIC_JSONB:
		case F_INT2_JSONB:
		case F_INT4_JSONB:
		case F_INT8_JSONB:
		case F_FLOAT4_JSONB:
		case F_FLOAT8_JSONB:
		case F_DATE_PART_TEXT_INTERVAL:
		case F_EXTRACT_TEXT_INTERVAL:
		case F_TIMEZONE_TEXT_TIMESTAMP:
		case F_TIMEZONE_TEXT_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
		case 6342:				/* uuid_extract_timestamp(), which came with 17 */
			return IN_MAJOR(18);
		default:
			return 0;
	}
}

/* Has the function the same results in the majors of all nodes and the coordinator? */
static bool
majors_agree(Oid funcid)
{
	uint32		majors = changed_in(funcid);

	return majors == 0 || (majors & shard_collation_majors_apart()) == 0;
}

bool
shard_rule_function_ok(Oid funcid)
{
	return shard_rule_is_builtin(funcid) && !depends_on_server(funcid) &&
		(func_volatile(funcid) == PROVOLATILE_IMMUTABLE || depends_on_timezone_only(funcid)) && majors_agree(funcid);
}

/* Is the type built-in, without an object name in its text form? */
bool
shard_rule_type_ok(Oid type)
{
	Oid			element;

	if (!shard_rule_is_builtin(type) || shard_type_io_names_object(type))
		return false;
	switch (type)
	{
		case ACLITEMOID:
		case XMLOID:
		case UNKNOWNOID:
		case REFCURSOROID:
			return false;
		default:
			break;
	}

	/* composite types and pseudo-types are not allowed */
	switch (get_typtype(type))
	{
		case TYPTYPE_BASE:
		case TYPTYPE_RANGE:
		case TYPTYPE_MULTIRANGE:
			break;
		default:
			return false;
	}
	element = get_element_type(type);
	return !OidIsValid(element) || shard_rule_type_ok(element);
}

bool
shard_rule_relabel_ok(Oid from, Oid to)
{
	from = getBaseType(from);
	if (from == to || shard_rule_type_ok(from) || from == XMLOID)
		return true;

	/* a user-defined type that is stored as a string */
	return !shard_rule_is_builtin(from) && get_typlen(from) == -1 &&
		(to == TEXTOID || to == VARCHAROID || to == BPCHAROID || to == BYTEAOID);
}

bool
shard_shippable_value_type(Oid type)
{
	/* the text form of money depends on lc_monetary, which nodes may set differently */
	return shard_rule_type_ok(type) && type != CASHOID && get_element_type(type) != CASHOID;
}

/* Combines the collation that an expression derives with that of its siblings. */
void
shard_rule_merge_derived(ShardDerived *outer, ShardDerived inner)
{
	if (inner.state > outer->state)
		*outer = inner;
	else if (inner.state == outer->state && inner.state == SHARD_COLLATION_SAFE &&
			 inner.collation != outer->collation)
	{
		/* as in parse_collate.c, a column's collation takes precedence over the default */
		if (outer->collation == DEFAULT_COLLATION_OID)
			*outer = inner;
		else if (inner.collation != DEFAULT_COLLATION_OID)
			outer->state = SHARD_COLLATION_UNSAFE;
	}
}

/* May a function use this input collation, given the collation that its arguments derive? */
bool
shard_rule_input_collation_ok(Oid inputcollid, ShardDerived args)
{
	if (args.state == SHARD_COLLATION_NONE)
		return !OidIsValid(inputcollid) || inputcollid == DEFAULT_COLLATION_OID ||
			shard_rule_is_byte_order(inputcollid);
	if (!OidIsValid(inputcollid) || shard_rule_is_byte_order(inputcollid))
		return args.state == SHARD_COLLATION_SAFE;
	return args.state == SHARD_COLLATION_SAFE && args.collation == inputcollid;
}

/*
 * Built-in functions and aggregates over text whose result is the same under every deterministic collation: they only
 * test for equality, or do not compare.
 */
static bool
ignores_collation(Oid funcid)
{
	switch (funcid)
	{
		case F_TEXTEQ:
		case F_TEXTNE:
		case F_NAMEEQTEXT:
		case F_NAMENETEXT:
		case F_TEXTEQNAME:
		case F_TEXTNENAME:
		case F_BPCHAREQ:
		case F_BPCHARNE:
		case F_ARRAY_EQ:
		case F_ARRAY_NE:
		case F_ARRAYOVERLAP:
		case F_ARRAYCONTAINS:
		case F_ARRAYCONTAINED:
		case F_HASHTEXT:
		case F_HASHTEXTEXTENDED:
		case F_HASHBPCHAR:
		case F_HASHBPCHAREXTENDED:
		case F_TEXTLIKE:
		case F_TEXTNLIKE:
		case F_BPCHARLIKE:
		case F_BPCHARNLIKE:
		case F_STARTS_WITH:
		case F_TEXTCAT:
		case F_TEXTANYCAT:
		case F_ANYTEXTCAT:
		case F_TEXT_BPCHAR:
		case F_TEXT_NAME:
		case F_TEXT_CHAR:
		case F_BPCHAR_BPCHAR_INT4_BOOL:
		case F_VARCHAR_VARCHAR_INT4_BOOL:
		case F_LENGTH_TEXT:
		case F_LENGTH_BPCHAR:
		case F_CHAR_LENGTH_TEXT:
		case F_CHAR_LENGTH_BPCHAR:
		case F_CHARACTER_LENGTH_TEXT:
		case F_CHARACTER_LENGTH_BPCHAR:
		case F_OCTET_LENGTH_TEXT:
		case F_OCTET_LENGTH_BPCHAR:
		case F_SUBSTR_TEXT_INT4:
		case F_SUBSTR_TEXT_INT4_INT4:
		case F_SUBSTRING_TEXT_INT4:
		case F_SUBSTRING_TEXT_INT4_INT4:
		case F_LEFT:
		case F_RIGHT:
		case F_STRPOS:
		case F_POSITION_TEXT_TEXT:
		case F_REPLACE:
		case F_SPLIT_PART:
		case F_REVERSE_TEXT:
		case F_REPEAT:
		case F_BTRIM_TEXT:
		case F_BTRIM_TEXT_TEXT:
		case F_LTRIM_TEXT:
		case F_LTRIM_TEXT_TEXT:
		case F_RTRIM_TEXT:
		case F_RTRIM_TEXT_TEXT:
		case F_MD5_TEXT:
		case F_COUNT_ANY:
		case F_ARRAY_AGG_ANYNONARRAY:
		case F_STRING_AGG_TEXT_TEXT:
		case F_JSONB_AGG:
		case F_JSON_OBJECT_FIELD:
		case F_JSON_OBJECT_FIELD_TEXT:
		case F_JSON_EXTRACT_PATH:
		case F_JSON_EXTRACT_PATH_TEXT:
		case F_JSONB_OBJECT_FIELD:
		case F_JSONB_OBJECT_FIELD_TEXT:
		case F_JSONB_EXTRACT_PATH:
		case F_JSONB_EXTRACT_PATH_TEXT:
		case F_JSONB_EXISTS:
		case F_JSONB_EXISTS_ANY:
		case F_JSONB_EXISTS_ALL:
		case F_DATE_TRUNC_TEXT_INTERVAL:
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
		case F_DATE_PART_TEXT_DATE:
		case F_DATE_PART_TEXT_INTERVAL:
		case F_DATE_PART_TEXT_TIME:
		case F_DATE_PART_TEXT_TIMESTAMP:
		case F_DATE_PART_TEXT_TIMESTAMPTZ:
		case F_DATE_PART_TEXT_TIMETZ:
		case F_EXTRACT_TEXT_DATE:
		case F_EXTRACT_TEXT_INTERVAL:
		case F_EXTRACT_TEXT_TIME:
		case F_EXTRACT_TEXT_TIMESTAMP:
		case F_EXTRACT_TEXT_TIMESTAMPTZ:
		case F_EXTRACT_TEXT_TIMETZ:
		case F_TIMEZONE_TEXT_TIMESTAMP:
		case F_TIMEZONE_TEXT_TIMESTAMPTZ:
			return true;
		default:
			return false;
	}
}

/* Functions that use the default collation although their arguments have none: strings inside of jsonb. */
static bool
uses_default_collation(Oid funcid)
{
	switch (funcid)
	{
		case F_JSONB_LT:
		case F_JSONB_LE:
		case F_JSONB_GT:
		case F_JSONB_GE:
		case F_JSONB_CMP:
		case F_JSONB_PATH_EXISTS:
		case F_JSONB_PATH_EXISTS_OPR:
		case F_JSONB_PATH_MATCH:
		case F_JSONB_PATH_MATCH_OPR:
		case F_JSONB_PATH_QUERY:
		case F_JSONB_PATH_QUERY_ARRAY:
		case F_JSONB_PATH_QUERY_FIRST:
		case F_TO_TSVECTOR_REGCONFIG_JSON:
		case F_TO_TSVECTOR_REGCONFIG_JSONB:
		case F_JSON_TO_TSVECTOR_REGCONFIG_JSON_JSONB:
		case F_JSONB_TO_TSVECTOR_REGCONFIG_JSONB_JSONB:
			return true;
		default:
			return false;
	}
}

bool
shard_rule_collation_ok(Oid funcid, Oid inputcollid)
{
	if (OidIsValid(inputcollid) ? ignores_collation(funcid) : !uses_default_collation(funcid))
		return true;
	if (OidIsValid(inputcollid) && inputcollid != DEFAULT_COLLATION_OID)
		return shard_collation_majors_apart() == 0 || !shard_collation_is_builtin(inputcollid);
	return !shard_collation_differs();
}

bool
shard_rule_order_collation_ok(Node *expr)
{
	Oid			type = getBaseType(exprType(expr));

	if (exprCollation(expr) != DEFAULT_COLLATION_OID && type != JSONBOID && type != JSONBARRAYOID)
		return true;
	return !shard_collation_differs();
}

/* The collation that a function's result derives from its arguments. */
ShardDerived
shard_rule_result_derived(Oid resultcollid, ShardDerived args)
{
	ShardDerived		result = {resultcollid, SHARD_COLLATION_UNSAFE};

	if (!OidIsValid(resultcollid))
		result.state = SHARD_COLLATION_NONE;
	else if (args.state == SHARD_COLLATION_SAFE && args.collation == resultcollid)
		result.state = SHARD_COLLATION_SAFE;
	else if (resultcollid == DEFAULT_COLLATION_OID && args.state == SHARD_COLLATION_NONE)
		result.state = SHARD_COLLATION_NONE;
	return result;
}

bool
shard_shippable_names_collation(Oid collation, Oid implied)
{
	return collation != implied && shard_rule_is_byte_order(collation);
}

/* The collation that a constant or parameter derives. */
ShardDerived
shard_rule_value_derived(Oid type, Oid collation)
{
	ShardDerived		result = {collation, SHARD_COLLATION_UNSAFE};
	Oid			implied = get_typcollation(type);

	if (!OidIsValid(collation) || collation == implied || collation == DEFAULT_COLLATION_OID)
		result.state = SHARD_COLLATION_NONE;
	else if (shard_shippable_names_collation(collation, implied))
		result.state = SHARD_COLLATION_SAFE;
	return result;
}

bool
shard_rule_is_styled(Oid type)
{
	return (shard_type_io_text_settings(type) & SHARD_TEXT_STYLED) != 0;
}

bool
shard_rule_travels_styled(Oid type)
{
	return !shard_type_io_binary_output(type) && shard_rule_is_styled(type);
}

/*
 * Conversion through text.  To text: allowed for types whose text form depends on no settings, or only on those that
 * sessions on nodes share with the user's session (DateStyle, TimeZone, IntervalStyle, extra_float_digits,
 * bytea_output).  From text: allowed if core's input function is immutable ('today'::date is not).
 */
bool
shard_rule_via_io_ok(Oid from, Oid to)
{
	bool		from_text = from == TEXTOID || from == VARCHAROID || from == BPCHAROID;
	bool		to_text = to == TEXTOID || to == VARCHAROID || to == BPCHAROID;
	Oid			function;
	Oid			ioparam;

	if (to_text)
	{
		switch (from)
		{
			case BOOLOID:
			case BYTEAOID:
			case CHAROID:
			case NAMEOID:
			case INT2OID:
			case INT4OID:
			case INT8OID:
			case OIDOID:
			case FLOAT4OID:
			case FLOAT8OID:
			case NUMERICOID:
			case DATEOID:
			case TIMEOID:
			case TIMETZOID:
			case TIMESTAMPOID:
			case TIMESTAMPTZOID:
			case INTERVALOID:
			case UUIDOID:
			case INETOID:
			case CIDROID:
			case MACADDROID:
			case JSONOID:
			case JSONBOID:
				return true;
			default:
				return from_text;
		}
	}
	if (!from_text || !shard_rule_type_ok(to) || to == CASHOID)
		return false;
	getTypeInputInfo(to, &function, &ioparam);
	return shard_rule_is_builtin(function) && func_volatile(function) == PROVOLATILE_IMMUTABLE && majors_agree(function);
}
