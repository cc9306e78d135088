/*
 * node_list.c
 *	  The nodes of this database.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/pg_foreign_server.h"
#include "conninfo.h"
#include "miscadmin.h"
#include "utils/rel.h"

List *
shard_node_list(bool *complete)
{
	Relation	servers = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(servers, InvalidOid, false, NULL, 0, NULL);
	Oid			cluster = shard_option_cluster_server();
	List	   *nodes = NIL;
	HeapTuple	tuple;

	*complete = true;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_server form = (Form_pg_foreign_server) GETSTRUCT(tuple);
		ShardNodeName *node;

		if (form->oid == cluster || !shard_option_is_our_server(form->oid))
			continue;
		if (!shard_conninfo_has_mapping(GetUserId(), form->oid))
		{
			*complete = false;
			continue;
		}
		node = palloc(sizeof(ShardNodeName));
		node->serverid = form->oid;
		node->name = pstrdup(NameStr(form->srvname));
		nodes = lappend(nodes, node);
	}
	systable_endscan(scan);
	table_close(servers, AccessShareLock);
	return nodes;
}

List *
shard_node_list_oids(void)
{
	List	   *oids = NIL;
	bool		complete;
	ListCell   *lc;

	foreach(lc, shard_node_list(&complete))
		oids = lappend_oid(oids, ((ShardNodeName *) lfirst(lc))->serverid);
	return oids;
}
