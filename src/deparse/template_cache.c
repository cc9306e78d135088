/*
 * template_cache.c
 *	  Texts of statements that came up before.
 *
 * To print a query takes longer than all else that is done to plan a statement
 * of one shard.  As its values have become parameters, statements that differ in
 * nothing else are equal queries here, and share their text, by which they also
 * share a prepared statement on the node.
 *
 *	  query --hash--> entries with this hash --equal()--> template
 *
 * An entry goes when anything changes that is named in a text: one of its
 * tables, or a type, function, operator, collation or schema, whichever it is.
 * There are at most MAX_ENTRIES; the one not used for longest makes room.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "compat.h"
#include "deparse/template.h"
#include "deparse/template_cache.h"
#include "lib/ilist.h"
#include "nodes/nodeFuncs.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define MAX_ENTRIES 128

typedef struct TemplateEntry
{
	dlist_node	link;			/* in entries */
	MemoryContext cxt;			/* holds this struct and all it points to */
	uint32		hash;
	bool		valid;
	Query	   *query;
	List	   *relids;			/* OidList: all tables of all levels */
	List	   *template;
} TemplateEntry;

typedef struct HashContext
{
	uint32		hash;
	List	   *relids;
} HashContext;

static dlist_head entries = DLIST_STATIC_INIT(entries); /* used last: first */
static int	nentries = 0;
static uint64 ninvalidations = 0;
static bool some_invalid = false;

/* A few numbers that tell most queries apart; collects their tables. */
static bool
hash_walker(Node *node, void *arg)
{
	HashContext *cxt = arg;

	if (node == NULL)
		return false;
	cxt->hash = hash_combine(cxt->hash, (uint32) nodeTag(node));
	switch (nodeTag(node))
	{
		case T_Var:
			cxt->hash = hash_combine(cxt->hash, ((Var *) node)->varno * 1000 + ((Var *) node)->varattno);
			break;
		case T_Param:
			cxt->hash = hash_combine(cxt->hash, ((Param *) node)->paramid);
			break;
		case T_OpExpr:
			cxt->hash = hash_combine(cxt->hash, ((OpExpr *) node)->opno);
			break;
		case T_RangeTblEntry:
			if (((RangeTblEntry *) node)->rtekind == RTE_RELATION)
			{
				cxt->hash = hash_combine(cxt->hash, ((RangeTblEntry *) node)->relid);
				cxt->relids = lappend_oid(cxt->relids, ((RangeTblEntry *) node)->relid);
			}
			return false;		/* what is in it is walked anyway */
		case T_Query:
			cxt->hash = hash_combine(cxt->hash, (uint32) ((Query *) node)->commandType);
			return query_tree_walker((Query *) node, hash_walker, arg, QTW_EXAMINE_RTES_BEFORE);
		default:
			break;
	}
	return expression_tree_walker(node, hash_walker, arg);
}

static void
drop_entry(TemplateEntry *entry)
{
	dlist_delete(&entry->link);
	nentries--;
	MemoryContextDelete(entry->cxt);
}

static void
drop_invalid(void)
{
	dlist_mutable_iter iter;

	if (!some_invalid)
		return;
	some_invalid = false;
	dlist_foreach_modify(iter, &entries)
	{
		TemplateEntry *entry = dlist_container(TemplateEntry, link, iter.cur);

		if (!entry->valid)
			drop_entry(entry);
	}
}

static TemplateEntry *
find_entry(const HashContext *key, const Query *query)
{
	dlist_iter	iter;

	dlist_foreach(iter, &entries)
	{
		TemplateEntry *entry = dlist_container(TemplateEntry, link, iter.cur);

		if (entry->hash == key->hash && equal(entry->query, query))
			return entry;
	}
	return NULL;
}

static void
add_entry(const HashContext *key, Query *query, List *template)
{
	/* under the current context until it is whole: an error leaves nothing behind */
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw template",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	TemplateEntry *entry = palloc0(sizeof(TemplateEntry));

	entry->cxt = cxt;
	entry->hash = key->hash;
	entry->valid = true;
	entry->query = copyObject(query);
	entry->relids = list_copy(key->relids);
	entry->template = copyObject(template);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextSetParent(cxt, CacheMemoryContext);

	if (nentries >= MAX_ENTRIES)
		drop_entry(dlist_tail_element(TemplateEntry, link, &entries));
	dlist_push_head(&entries, &entry->link);
	nentries++;
}

List *
shard_template_cache_print(Query *query, List *places)
{
	HashContext key = {0};
	TemplateEntry *entry;
	List	   *template;
	uint64		before;

	(void) hash_walker((Node *) query, &key);
	drop_invalid();
	entry = find_entry(&key, query);
	if (entry != NULL)
	{
		dlist_move_head(&entries, &entry->link);
		return copyObject(entry->template);
	}

	/* what is invalidated while it is printed is not kept */
	before = ninvalidations;
	template = shard_template_print(NULL, query, places);
	if (template != NIL && ninvalidations == before)
		add_entry(&key, query, template);
	return template;
}

/* relid: the table that has changed, or 0 for all. */
static void
invalidate_relation(Datum arg, Oid relid)
{
	dlist_iter	iter;

	ninvalidations++;
	dlist_foreach(iter, &entries)
	{
		TemplateEntry *entry = dlist_container(TemplateEntry, link, iter.cur);

		if (!OidIsValid(relid) || list_member_oid(entry->relids, relid))
		{
			entry->valid = false;
			some_invalid = true;
		}
	}
}

static void
invalidate_all(Datum arg, SysCacheIdentifier cacheid, uint32 hashvalue)
{
	invalidate_relation(arg, InvalidOid);
}

void
shard_template_cache_init(void)
{
	CacheRegisterRelcacheCallback(invalidate_relation, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, invalidate_all, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPEOID, invalidate_all, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, invalidate_all, (Datum) 0);
	CacheRegisterSyscacheCallback(OPEROID, invalidate_all, (Datum) 0);
	CacheRegisterSyscacheCallback(COLLOID, invalidate_all, (Datum) 0);
}
