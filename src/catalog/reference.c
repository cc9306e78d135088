/*
 * reference.c
 *	  Which tables are reference tables, according to the catalogs.
 *
 * A reference table is an ordinary table with the triggers that create_reference_table() creates
 * (sql/install/43_reference.sql): statement triggers for INSERT, UPDATE, DELETE and TRUNCATE that
 * call our C function.  If one of them is missing or disabled, writes may not reach the nodes, so
 * the table does not count as a reference table.
 */
#include "postgres.h"

#include "catalog/node_list.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/reference.h"
#include "catalog_scan.h"
#include "commands/trigger.h"
#include "hash_table.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* A reference table sends the writes of all these events. */
#define ALL_EVENTS (TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE | TRIGGER_TYPE_TRUNCATE)

typedef struct ReferenceEntry
{
	Oid			relid;			/* hash key: a table with triggers */
	bool		is_reference;
} ReferenceEntry;

static HTAB *entries = NULL;
static uint64 ninvalidations = 0;

void
shard_reference_invalidate(Oid relid)
{
	HASH_SEQ_STATUS scan;
	ReferenceEntry *entry;

	ninvalidations++;
	if (entries == NULL)
		return;
	if (OidIsValid(relid))
	{
		hash_search(entries, &relid, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
		hash_search(entries, &entry->relid, HASH_REMOVE, NULL);
}

/* The C symbol identifies the function: only superusers can create C functions, so no other function has the symbol. */
bool
shard_reference_is_trigger(Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	bool		result = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId)
	{
		bool		isnull;
		Datum		symbol = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);

		result = !isnull && strcmp(TextDatumGetCString(symbol), SHARD_REFERENCE_TRIGGER) == 0;
	}
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Returns the events for which triggers of rel send the writes. complete: only triggers that fire,
 * and for all rows of a statement.
 */
static int
sent_events(Relation rel, bool complete)
{
	/* a copy, since looking up functions may make core rebuild rel's cache entry, and free its triggers */
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc);
	int			sent = 0;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];
		bool		is_complete = !TRIGGER_FOR_ROW(trigger->tgtype) && TRIGGER_FOR_AFTER(trigger->tgtype) &&
			(trigger->tgenabled == TRIGGER_FIRES_ALWAYS || trigger->tgenabled == TRIGGER_FIRES_ON_ORIGIN);

		if ((is_complete || !complete) && shard_reference_is_trigger(trigger->tgfoid))
			sent |= trigger->tgtype & ALL_EVENTS;
	}
	FreeTriggerDesc(triggers);
	return sent;
}

bool
shard_reference_is(Oid relid)
{
	ReferenceEntry *entry;
	Relation	rel;
	uint64		began;
	bool		result;

	if (entries == NULL)
		entries = shard_hash_table_create("shardfdw reference tables", 64, sizeof(Oid), sizeof(ReferenceEntry), TopMemoryContext);
	entry = hash_search(entries, &relid, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->is_reference;

	began = ninvalidations;
	rel = RelationIdGetRelation(relid);
	if (!RelationIsValid(rel))
		return false;
	if (rel->rd_rel->relkind != RELKIND_RELATION || !rel->rd_rel->relhastriggers)
	{
		RelationClose(rel);
		return false;
	}
	/* the coordinator would also read rows of children, which the nodes do not have */
	result = sent_events(rel, true) == ALL_EVENTS &&
		!(rel->rd_rel->relhassubclass && find_inheritance_children(relid, NoLock) != NIL);
	RelationClose(rel);

	if (began == ninvalidations)
	{
		entry = hash_search(entries, &relid, HASH_ENTER, NULL);
		entry->is_reference = result;
	}
	return result;
}

bool
shard_reference_has_trigger(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	bool		result = RelationIsValid(rel) && sent_events(rel, false) != 0;

	if (RelationIsValid(rel))
		RelationClose(rel);
	return result;
}

List *
shard_reference_nodes(void)
{
	ShardCatalogScan scan;
	List	   *nodes = NIL;
	HeapTuple	tuple;

	shard_catalog_scan_begin(&scan, ForeignServerRelationId);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Oid			serverid = ((Form_pg_foreign_server) GETSTRUCT(tuple))->oid;

		if (shard_node_is(serverid))
			nodes = lappend_oid(nodes, serverid);
	}
	shard_catalog_scan_end(&scan);
	list_sort(nodes, list_oid_cmp);
	return nodes;
}
