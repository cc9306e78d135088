/*
 * ddl_need.c
 *	  Finds the objects that a table needs on its nodes: types, functions and others.
 *
 * They are found in pg_depend, from the parts of a table that the node has, too: without defaults and triggers, which
 * stay on the coordinator, and without the partition key.  Each statement that creates something on nodes calls this,
 * mostly for a table that needs nothing.  So it does not use SQL, whose planning would take much longer.
 */
#include "postgres.h"

#include "access/skey.h"
#include "access/transam.h"
#include "array_loop.h"
#include "catalog/dependency.h"
#include "catalog/objectaddress.h"
#include "catalog/option.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "compat.h"
#include "ddl/ddl_need.h"
#include "ddl/now.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(shardfdw_needed);

/* Functions may refer to each other in a cycle. */
#define MAX_LEVEL 30

typedef struct ShardNeeded
{
	Oid			classid;
	Oid			objid;
	int			level;			/* objects with a higher level are needed by objects with a lower level; from 1 */
} ShardNeeded;

static void
add_object(List **objects, Oid classid, Oid objid)
{
	ShardNeeded *object;
	ListCell   *lc;

	CHECK_FOR_INTERRUPTS();
	foreach(lc, *objects)
	{
		object = lfirst(lc);
		if (object->classid == classid && object->objid == objid)
			return;
	}
	object = palloc0(sizeof(ShardNeeded));
	object->classid = classid;
	object->objid = objid;
	*objects = lappend(*objects, object);
}

/* Adds the rows of a catalog whose column attno equals key. */
static void
add_rows(List **objects, Oid catalog, Oid index, AttrNumber attno, Oid key, bool (*is_part) (HeapTuple tuple, Oid *objid))
{
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin_oid(&scan, catalog, index, attno, key);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Oid			objid;

		if (is_part(tuple, &objid))
			add_object(objects, catalog == IndexRelationId ? RelationRelationId : catalog, objid);
	}
	shard_catalog_scan_end(&scan);
}

static bool
is_index(HeapTuple tuple, Oid *objid)
{
	*objid = ((Form_pg_index) GETSTRUCT(tuple))->indexrelid;
	return true;
}

/* Foreign keys reference tables, which nodes get separately. */
static bool
is_kept_constraint(HeapTuple tuple, Oid *objid)
{
	Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);

	*objid = constraint->oid;
	return constraint->contype == CONSTRAINT_CHECK || constraint->contype == CONSTRAINT_PRIMARY ||
		constraint->contype == CONSTRAINT_UNIQUE || constraint->contype == CONSTRAINT_EXCLUSION;
}

static bool
is_any_constraint(HeapTuple tuple, Oid *objid)
{
	*objid = ((Form_pg_constraint) GETSTRUCT(tuple))->oid;
	return true;
}

static bool
is_statistics(HeapTuple tuple, Oid *objid)
{
	*objid = ((Form_pg_statistic_ext) GETSTRUCT(tuple))->oid;
	return true;
}

static bool
is_generated(HeapTuple tuple, Oid *objid)
{
	Form_pg_attrdef def = (Form_pg_attrdef) GETSTRUCT(tuple);

	*objid = def->oid;
	return get_attgenerated(def->adrelid, def->adnum) != '\0';
}

/* Adds the parts of a table whose dependencies the table on a node has, too. */
static void
add_parts(List **objects, Oid relid)
{
	add_object(objects, RelationRelationId, relid);
	add_rows(objects, IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid, relid, is_index);
	add_rows(objects, ConstraintRelationId, ConstraintRelidTypidNameIndexId, Anum_pg_constraint_conrelid, relid, is_kept_constraint);
	add_rows(objects, StatisticExtRelationId, StatisticExtRelidIndexId, Anum_pg_statistic_ext_stxrelid, relid, is_statistics);
	add_rows(objects, AttrDefaultRelationId, AttrDefaultIndexId, Anum_pg_attrdef_adrelid, relid, is_generated);
}

/*
 * Finds the object that has to be created.  False for objects that every server has, and for objects that are not
 * types, functions or similar.
 */
static bool
find_made(Oid *classid, Oid *objid)
{
	Oid			extension;

	/* for a composite type's table the type, for an array its element type, for a multirange its range type */
	if (*classid == RelationRelationId)
	{
		*classid = TypeRelationId;
		*objid = get_rel_relkind(*objid) == RELKIND_COMPOSITE_TYPE ? get_rel_type_id(*objid) : InvalidOid;
	}
	else if (*classid == TypeRelationId)
	{
		HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(*objid));
		Oid			range = get_multirange_range(*objid);

		if (HeapTupleIsValid(tuple))
		{
			Form_pg_type type = (Form_pg_type) GETSTRUCT(tuple);

			if (type->typcategory == TYPCATEGORY_ARRAY && OidIsValid(type->typelem))
				*objid = type->typelem;
			else if (OidIsValid(range))
				*objid = range;
			ReleaseSysCache(tuple);
		}
	}
	if (*objid < FirstNormalObjectId)
		return false;

	extension = getExtensionOfObject(*classid, *objid);
	if (OidIsValid(extension))
	{
		*classid = ExtensionRelationId;
		*objid = extension;
	}
	return true;
}

/*
 * Adds the objects that `of` depends on. tables: if not NIL, `of` is a part of these tables, for which only
 * dependencies of the definition count.
 */
static void
add_needed_by(List **objects, const ShardNeeded *of, Oid classid, Oid objid, List *tables)
{
	ScanKeyData skey[2];
	ShardCatalogScan scan;
	HeapTuple	tuple;

	CHECK_FOR_INTERRUPTS();
	ScanKeyInit(&skey[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(classid));
	ScanKeyInit(&skey[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(objid));
	shard_catalog_scan_begin_keys(&scan, DependRelationId, DependDependerIndexId, NULL, 2, skey);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_depend d = (Form_pg_depend) GETSTRUCT(tuple);
		Oid			need_class = d->refclassid;
		Oid			need = d->refobjid;

		if (tables != NIL && d->deptype != DEPENDENCY_NORMAL && d->deptype != DEPENDENCY_AUTO)
			continue;
		/* the operator class of the partition key */
		if (need_class == OperatorClassRelationId && classid == RelationRelationId && list_member_oid(tables, objid))
			continue;
		if (find_made(&need_class, &need) && (need_class != of->classid || need != of->objid))
			add_object(objects, need_class, need);
	}
	shard_catalog_scan_end(&scan);
}

/* Adds the objects that a found object depends on. */
static void
add_needed(List **objects, const ShardNeeded *of)
{
	add_needed_by(objects, of, of->classid, of->objid, NIL);
	if (of->classid == TypeRelationId)
	{
		Oid			relid = get_typ_typrelid(of->objid);
		List	   *constraints = NIL;

		if (OidIsValid(relid))
			add_needed_by(objects, of, RelationRelationId, relid, NIL);
		add_rows(&constraints, ConstraintRelationId, ConstraintTypidIndexId, Anum_pg_constraint_contypid, of->objid, is_any_constraint);
		foreach_ptr(ShardNeeded, constraint, constraints)
			add_needed_by(objects, of, ConstraintRelationId, constraint->objid, NIL);
	}
}

/*
 * Finds the objects that the shards of tables (a list of OIDs) need, from the current catalogs: schemas, types,
 * functions and others for columns, constraints, generated columns and indexes, and indirectly needed objects.  For a
 * member of an extension, it is the extension.  Returns a list of ShardNeeded *, without duplicates.
 */
static List *
needed_objects(List *relids)
{
	List	   *found = NIL;
	List	   *parts = NIL;
	List	   *last = NIL;
	ListCell   *lc2;

	foreach_oid(relid, relids)
		add_parts(&parts, relid);
	foreach_ptr(ShardNeeded, part, parts)
		add_needed_by(&last, part, part->classid, part->objid, relids);

	/* the level of an object is the length of the longest path to it */
	for (int level = 1; last != NIL && level <= MAX_LEVEL; level++)
	{
		List	   *next = NIL;

		foreach_ptr(ShardNeeded, object, last)
		{
			add_needed(&next, object);
			object->level = level;
			foreach(lc2, found)
			{
				ShardNeeded *before = lfirst(lc2);

				if (before->classid == object->classid && before->objid == object->objid)
				{
					before->level = level;
					break;
				}
			}
			if (lc2 == NULL)
				found = lappend(found, object);
		}
		last = next;
	}
	return found;
}

/* InvalidOid if an object is in no schema, or has been dropped. */
static Oid
schema_of(const ShardNeeded *object)
{
	Relation	catalog;
	AttrNumber	attno;
	HeapTuple	tuple;
	Oid			schema = InvalidOid;
	bool		isnull;

	if (object->classid == NamespaceRelationId)
		return object->objid;
	if (!is_objectclass_supported(object->classid))
		return InvalidOid;
	/* for core, an extension has no schema, because its members may be in others */
	attno = object->classid == ExtensionRelationId ? Anum_pg_extension_extnamespace : get_object_attnum_namespace(object->classid);
	if (attno == InvalidAttrNumber)
		return InvalidOid;
	catalog = table_open(object->classid, AccessShareLock);
	tuple = get_catalog_object_by_oid(catalog, get_object_attnum_oid(object->classid), object->objid);
	if (HeapTupleIsValid(tuple))
		schema = DatumGetObjectId(heap_getattr(tuple, attno, RelationGetDescr(catalog), &isnull));
	table_close(catalog, AccessShareLock);
	return schema;
}

List *
shard_ddl_needed_schemas(Oid relid)
{
	Oid			own = get_rel_namespace(relid);
	List	   *schemas = OidIsValid(own) ? list_make1_oid(own) : NIL;

	foreach_ptr(ShardNeeded, object, needed_objects(list_make1_oid(relid)))
	{
		Oid			schema = schema_of(object);

		if (OidIsValid(schema))
			schemas = list_append_unique_oid(schemas, schema);
	}
	return schemas;
}

/* needed(relations regclass[]) -> classid oid, objid oid, level integer */
Datum
shardfdw_needed(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ShardArrayLoop loop;
	Datum		relid;
	List	   *relids = NIL;

	shard_array_loop_begin(&loop, PG_GETARG_ARRAYTYPE_P(0));
	while (shard_array_loop_next(&loop, &relid))
		relids = lappend_oid(relids, DatumGetObjectId(relid));

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	foreach_ptr(ShardNeeded, object, needed_objects(relids))
	{
		Datum		row[] = {ObjectIdGetDatum(object->classid), ObjectIdGetDatum(object->objid), Int32GetDatum(object->level)};
		bool		nulls[lengthof(row)] = {0};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row, nulls);
	}
	return (Datum) 0;
}

List *
shard_ddl_tables_of_type(Oid type)
{
	if (type < FirstNormalObjectId || !OidIsValid(shard_option_cluster_server()))
		return NIL;
	return shard_now_oids(psprintf("SELECT r::pg_catalog.oid FROM shardfdw_internal.tables_of_type(%u) r", type));
}

bool
shard_ddl_may_need_objects(const AlterTableStmt *stmt)
{
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		AlterTableType subtype = cmd->subtype;

		if (subtype == AT_AddColumn || subtype == AT_AlterColumnType || subtype == AT_AddConstraint ||
			subtype == SHARD_AT_SET_EXPRESSION)
			return true;
	}
	return false;
}

/* The nodes of the table's shards as an SQL array. */
static char *
node_array(const ShardDdlTable *table)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "ARRAY[");
	for (int i = 0; i < table->nshards; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "", quote_literal_cstr(table->shards[i].node));
	appendStringInfoString(&buf, "]::pg_catalog.name[]");
	return buf.data;
}

void
shard_ddl_make_objects(const ShardDdlTable *table, bool autocommit)
{
	const char *nodes;
	ListCell   *lc;

	if (shard_guc_follows_coordinator)
		return;
	/* its schema exists */
	foreach(lc, needed_objects(list_make1_oid(table->relid)))
		if (((ShardNeeded *) lfirst(lc))->classid != NamespaceRelationId)
			break;
	if (lc == NULL)
		return;
	nodes = node_array(table);
	if (autocommit)
		shard_now_run(psprintf("SELECT shardfdw_internal.make_objects_seen(%u, %s, 'autocommit')", table->relid, nodes));
	else
		shard_now_run(psprintf("SELECT shardfdw_internal.make_objects_on_nodes(%u, %s)", table->relid, nodes));
}

void
shard_ddl_make_schema(const ShardDdlTable *table, const char *schema)
{
	if (shard_guc_follows_coordinator)
		return;
	shard_now_run(psprintf("SELECT shardfdw_internal.make_schema_on_nodes(%u, %s, ARRAY(SELECT DISTINCT n FROM pg_catalog.unnest(%s) n))", table->relid,
						   quote_literal_cstr(schema), node_array(table)));
}
